// benchmarks/check_costs with programs that say what the test wants to have been measured.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::check_costs_test {
namespace {

namespace fs = std::filesystem;
using test::ChildResult;
using test::read_file;
using test::write_file;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What a program answers where its arguments match a pattern of the shell: the first that does.
struct Answer {
  std::string arguments;
  std::vector<double> nanoseconds;  // of a record, one for each such call; the last again and again
};

class CheckCosts : public testing::Test {
 protected:
  void SetUp() override {
    write_file(page_,
               "# Page\n\n<!-- costs: begin -->\nold\n<!-- costs: end -->\n\nBetween.\n\n"
               "<!-- counting: begin -->\nold\n<!-- counting: end -->\n\nThe rest.\n");
    fs::create_directories(folder_.path("temporary"));
    bench({});
    replicas({100, 100, 100, 100});
  }

  void write_program(const std::string& path, const std::string& script) const {
    fs::create_directories(fs::path(path).parent_path());
    write_file(path, "#!/bin/sh\n" + script);
    fs::permissions(path, fs::perms::owner_all);
  }

  // A dataset_bench that takes 100 ns a record, and 10 more for each map, where no answer says otherwise.
  void bench(std::vector<Answer> answers) const {
    for (const int maps : {1, 2, 5, 10, 20, 50}) {
      answers.push_back({fmt::format("*/maps_{}.txtpb*", maps), {100.0 + 10 * maps}});
    }
    answers.push_back({"*", {100}});
    std::string script =
        "for word; do [ \"$before\" != --save-pipeline ] || echo stop: 1000000000000 > $word; before=$word; done\n"
        "case \"$*\" in\n";
    for (size_t i = 0; i < answers.size(); ++i) {
      const std::string calls = folder_.path(fmt::format("calls_{}", i));
      script += fmt::format("  {0}) echo called >> {1}; at=$(wc -l < {1}); set --", answers[i].arguments, calls);
      for (const double nanoseconds : answers[i].nanoseconds) script += fmt::format(" {}", nanoseconds / 1000);
      script += " ;;\n";
    }
    write_program(folder_.path("benchmarks/dataset_bench"),
                  script + "esac\n[ $at -le $# ] || at=$#\nshift $((at - 1))\n" +
                      "echo '{\"us_cpu_per_record\": '$1', \"us_wall_per_record\": '$1', \"first_batch_ms\": 7, "
                      "\"peak_rss_mb\": 20}'\n");
  }
  // How often the answer was given.
  int64_t num_calls(size_t answer) const {
    return std::ranges::count(read_file(folder_.path(fmt::format("calls_{}", answer))), '\n');
  }

  // Nanoseconds of a row for 1, 2, 4 and 8 replicas.
  void replicas(const std::vector<int>& nanoseconds) const {
    std::string entries;
    for (size_t i = 0; i < nanoseconds.size(); ++i) {
      for (const char* what : {"distribute", "split"}) {
        entries += fmt::format(
            R"({}{{"run_type": "iteration", "run_name": "{}/{}/process_time", "items_per_second": {},)"
            R"( "cpu_time": 2, "real_time": 4}})",
            entries.empty() ? "" : ",", what, 1 << i, 1e9 / (what == std::string("split") ? 1 << i : nanoseconds[i]));
      }
    }
    write_program(folder_.path("benchmarks/trainer/trainer_benchmark"),
                  fmt::format("echo '{{\"benchmarks\": [{}]}}'\n", entries));
  }

  // A valgrind that counts so many instructions a batch, 1,000 before the first, and others in libraries that are left
  // out or called.
  std::string valgrind(int without, int statistics, int trace) const {
    std::string path = folder_.path("valgrind");
    write_program(path, fmt::format(R"(for word; do
  case $word in --callgrind-out-file=*) file=${{word#*=}};; esac
  [ "$before" != --batches ] || batches=$word
  before=$word
done
each={}
case "$*" in *--no-statistics*) each={};; *--trace*) each={};; esac
cat > $file <<END
events: Ir DLmr DLmw
ob=(1) /a/dataset_bench
fn=(1) main
1 1000
+3 $((each * batches)) 256 $((batches * 256))
cob=(2) /b/libtbb.so.12
cfn=(2) spin
calls=1 1
+1 $RANDOM$$
ob=(2)
fn=(2)
1 $$
* 77
END
)",
                                    statistics, without, trace));
    return path;
  }

  ChildResult check(std::vector<std::string> arguments = {}) const {
    arguments.insert(arguments.begin(), {test::kCheckCosts, "--build", folder_.path(), "--page", page_, "--rounds", "1",
                                         "--valgrind", ""});
    return test::run_child(arguments, {.environment = {"TMPDIR=" + folder_.path("temporary")}});
  }
  bool left_nothing() const { return fs::is_empty(folder_.path("temporary")); }

  test::TemporaryFolder folder_;
  std::string page_ = folder_.path("page.md");
};

TEST_F(CheckCosts, PassesWhereNoCostIsOffByMoreThan15Percent) {
  bench({{"read*/shards_10000/*", {118}}, {"mlm*--shuffle?4096?*", {88}}, {"*/maps_20.txtpb*", {340}}});
  replicas({100, 100, 100, 118});
  const ChildResult result = check();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("| shards | 10,000 | 118 | 118 | +13% | first batch, ms 7; memory, MB 20 |"),
                    HasSubstr("| shuffle | 2^12 | 88 | 88 | -8% |"), HasSubstr("| maps | 20 | 340 | 340 | +13% |  |"),
                    HasSubstr("| maps | 50 | 600 | 600 |  | each added map 10 ns |"),
                    HasSubstr("| replicas | 8 | 118 | 236 | +13% |  |"),
                    HasSubstr("| replicas | 8, the views alone | 8 | 16 |  |  |")));
  EXPECT_THAT(result.out, HasSubstr("| mlm | 100 | 100 | +0.0% | 100 | +0.0% |"));
  EXPECT_TRUE(left_nothing());
}

TEST_F(CheckCosts, FailsWhereShardsAreOff) {
  bench({{"read*/shards_10000/*", {130}}});
  const ChildResult result = check({"--only", "shards"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("shards 10,000: 130 ns of CPU time a record"),
                                HasSubstr("+21% from the others, may be 15%"), Not(HasSubstr("shards 10:"))));
  EXPECT_TRUE(left_nothing());
}

TEST_F(CheckCosts, FailsWhereAShuffleIsOffButNotTheLargest) {
  bench({{"mlm*--shuffle?262144?*", {500}}, {"mlm*--shuffle?16384?*", {130}}});
  const ChildResult result = check({"--only", "shuffle"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("shuffle 2^14: 130 ns"), Not(HasSubstr("shuffle 2^18: 500 ns"))));
  EXPECT_THAT(result.out, HasSubstr("| shuffle | 2^18 | 500 | 500 |  |"));
}

TEST_F(CheckCosts, FailsWhereMapsAreOffTheLine) {
  bench({{"*/maps_20.txtpb*", {250}}});
  const ChildResult result = check({"--only", "maps"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("maps 20: 250 ns of CPU time a record: -17% from"), Not(HasSubstr("maps 10:"))));
  // With more maps than these each costs more.
  bench({{"*/maps_50.txtpb*", {1000}}});
  EXPECT_EQ(check({"--only", "maps"}).exit_code, 1);
}

TEST_F(CheckCosts, FailsWhereReplicasAreOff) {
  replicas({100, 100, 100, 140});
  const ChildResult result = check({"--only", "replicas"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("replicas 8: 140 ns"), Not(HasSubstr("views alone"))));
}

TEST_F(CheckCosts, TakesTheLeastOfTheRounds) {
  bench({{"read*/shards_10/*", {300, 104, 200}}});
  const ChildResult result = check({"--only", "shards", "--rounds", "3", "--attempts", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("| shards | 10 | 104 | 104 | +3% |"));
}

TEST_F(CheckCosts, MeasuresAPartThatFailsAgainUpToTheLastAttempt) {
  bench({{"read*/shards_10/*", {300, 200, 104}}, {"mlm*--shuffle?1024?*", {100}}});
  EXPECT_EQ(check({"--only", "shards", "shuffle"}).exit_code, 0);
  EXPECT_EQ(num_calls(0), 3);
  EXPECT_EQ(num_calls(1), 1);
  fs::remove(folder_.path("calls_0"));
  EXPECT_EQ(check({"--only", "shards", "--attempts", "2"}).exit_code, 1);
  EXPECT_EQ(num_calls(0), 2);
}

TEST_F(CheckCosts, ComparesTheCpuTimeOfCountingWhereThereIsNoValgrind) {
  bench({{"*--no-statistics*", {1000}}, {"*--trace*", {1121}}, {"*", {1019}}});
  const ChildResult result = check({"--only", "counting"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, AllOf(HasSubstr("| workload | CPU ns a record without statistics |"),
                                HasSubstr("| read | 1,000 | 1,019 | +1.9% | 1,121 | +10.0% |")));
  EXPECT_THAT(result.err, AllOf(HasSubstr("a record of read costs 10.0% more with a trace, may be 10%"),
                                Not(HasSubstr("with statistics"))));
}

TEST_F(CheckCosts, CountsTheInstructionsOfCountingWithoutThoseOfIdleThreads) {
  const ChildResult passes = check({"--only", "counting", "--valgrind", valgrind(250'000, 254'900, 280'300)});
  EXPECT_EQ(passes.exit_code, 0) << passes.err;
  EXPECT_THAT(passes.out, AllOf(HasSubstr("| workload | instructions a record without statistics |"),
                                HasSubstr("| read | 1,000 | 1,019.6 | +2.0% | 1,121.2 | +10.0% |")));
  const ChildResult fails = check({"--only", "counting", "--valgrind", valgrind(250'000, 255'750, 280'300)});
  EXPECT_EQ(fails.exit_code, 1);
  EXPECT_THAT(fails.err, HasSubstr("a record of read costs 2.3% more with statistics, may be 2%"));
}

TEST_F(CheckCosts, ShowsTheCacheMissesOfAShuffle) {
  const ChildResult result = check({"--only", "shuffle", "--valgrind", valgrind(1, 1, 1)});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("| shuffle | 2^18 | 100 | 100 |  | first batch, ms 7; memory, MB 20; cache misses 2 |"));
}

TEST_F(CheckCosts, WritesTheTablesInTheirPlaces) {
  EXPECT_EQ(check({"--write"}).exit_code, 0);
  EXPECT_THAT(read_file(page_),
              AllOf(HasSubstr("# Page\n\n<!-- costs: begin -->\n"), HasSubstr("| shards | 10 | 100 |"),
                    HasSubstr("<!-- costs: end -->\n\nBetween.\n\n<!-- counting: begin -->\n"),
                    HasSubstr("| noop | 100 | 100 |"), HasSubstr("<!-- counting: end -->\n\nThe rest.\n"),
                    Not(HasSubstr("old"))));
  const ChildResult result = check({"--write", "--only", "shards"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("--write needs all parts of a table: shards, shuffle, maps, replicas; or counting"));
}

TEST_F(CheckCosts, ReadsShardsThatAreHardLinksToRecordsOfMlm) {
  write_program(folder_.path("benchmarks/dataset_bench"),
                "for word; do case $word in *.tfrecord) set -- ${word%/*}/*; echo $# >> " + folder_.path("counts") +
                    "; ln -f $1 " + folder_.path("one.tfrecord") +
                    ";; esac; done\necho '{\"us_cpu_per_record\": 1, \"us_wall_per_record\": 1, \"first_batch_ms\": 1, "
                    "\"peak_rss_mb\": 1}'\n");
  EXPECT_EQ(check({"--only", "shards"}).exit_code, 0);
  EXPECT_EQ(read_file(folder_.path("counts")), "10\n100\n1000\n10000\n");
  // Checksums, and the features that the workload parses; one more batch would be of the next epoch.
  const ChildResult parsed = test::run_child({test::kDatasetBench, "mlm", "--shards", folder_.path("one.tfrecord"),
                                              "--shuffle", "1", "--batch", "1000", "--batches", "2", "--json"});
  EXPECT_EQ(parsed.exit_code, 0) << parsed.err;
  EXPECT_THAT(parsed.out, HasSubstr("\"records\":2000"));
}

TEST_F(CheckCosts, RemovesItsFolderWhereItIsInterruptedOrAProgramFails) {
  for (const char* signal : {"INT", "TERM"}) {
    write_program(folder_.path("benchmarks/dataset_bench"), fmt::format("kill -{} $PPID; sleep 60\n", signal));
    EXPECT_EQ(check({"--only", "shards"}).exit_code, signal == std::string("INT") ? 130 : 143);
    EXPECT_TRUE(left_nothing());
  }
  write_program(folder_.path("benchmarks/dataset_bench"), "echo no such file >&2; exit 1\n");
  const ChildResult result = check({"--only", "shards"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("failed with 1:\nno such file"));
  EXPECT_TRUE(left_nothing());
}

TEST_F(CheckCosts, RefusesOptionsThatCannotBe) {
  EXPECT_THAT(check({"--only", "shard"}).err, HasSubstr("invalid choice: 'shard'"));
  EXPECT_THAT(check({"--rounds", "0"}).err, HasSubstr("--rounds is 0, must be at least 1"));
  fs::remove(folder_.path("benchmarks/trainer/trainer_benchmark"));
  EXPECT_THAT(check({"--only", "replicas"}).err, HasSubstr("trainer_benchmark; build it"));
  EXPECT_EQ(check({"--only", "maps"}).exit_code, 0);
}

}  // namespace
}  // namespace millrace::check_costs_test
