// benchmarks/check_kernels with programs that print what the test wants to have been measured.
#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::check_kernels_test {
namespace {

namespace fs = std::filesystem;
using test::ChildResult;
using test::read_file;
using test::write_file;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Runs of a benchmark: nanoseconds of an item, one for each call of the program.
struct Benchmark {
  std::string name;
  std::vector<int> runs;
};

class CheckKernels : public testing::Test {
 protected:
  void SetUp() override {
    write_table({"| crc/100 | ISA-L | 10 | 10 | 1 | ≤ 1.11 | then, there |",
                 "| gather | memcpy | 30 | 20 | **1.5** | ≤ 1.43 | then, there |"});
    write_program("pipeline", {});
    crc(10, 10);
    write_program("ops", {{"gather", {30}}, {"gather_floor", {20}}});
  }

  void write_table(const std::vector<std::string>& rows) {
    write_file(
        page_,
        fmt::format("# Page\n\n<!-- kernels: begin -->\nold\n\n| kernel | floor | ns | ns | ratio | asked | measured "
                    "|\n|---|---|--:|--:|--:|--:|---|\n{}\n<!-- kernels: end -->\n\nThe rest.\n",
                    fmt::join(rows, "\n")));
  }
  void crc(int kernel, int floor) {
    write_program("formats", {{"crc/100", {kernel}}, {"crc_floor/100", {floor}}, {"without_a_floor", {1}}});
  }

  // A program that lists its benchmarks, and answers its first call with the first runs, and so on.
  void write_program(const std::string& folder, const std::vector<Benchmark>& benchmarks) {
    const std::string path = folder_.path("benchmarks/" + folder + "/" + folder + "_benchmark");
    fs::create_directories(fs::path(path).parent_path());
    const std::string calls = folder_.path(folder + "_calls");
    std::string script =
        fmt::format("#!/bin/sh\ncase $* in *list_tests*) printf '{}'; exit;; esac\n", names(benchmarks));
    script += fmt::format("echo called >> {0}\ncalls=$(wc -l < {0})\necho '{{\"benchmarks\": ['\n", calls);
    std::string comma;
    for (const Benchmark& benchmark : benchmarks) {
      std::vector<std::string> rates;
      for (const int nanoseconds : benchmark.runs) rates.push_back(fmt::format("{}", 1e9 / nanoseconds));
      script +=
          fmt::format("set -- {}\nat=$calls; [ $at -le $# ] || at=$#\nshift $((at - 1))\n", fmt::join(rates, " "));
      script +=
          fmt::format("echo '{}{{\"run_type\": \"iteration\", \"run_name\": \"{}\", \"items_per_second\": '\"$1}}\"\n",
                      std::exchange(comma, ","), benchmark.name);
    }
    write_file(path, script + "echo ']}'\n");
    fs::permissions(path, fs::perms::owner_all);
  }
  static std::string names(const std::vector<Benchmark>& benchmarks) {
    std::string all;
    for (const Benchmark& benchmark : benchmarks) all += benchmark.name + "\\n";
    return all;
  }
  // How often a program was called to measure.
  int64_t num_calls(const std::string& folder) const {
    return std::ranges::count(read_file(folder_.path(folder + "_calls")), '\n');
  }

  ChildResult check(std::vector<std::string> arguments = {}) const {
    arguments.insert(arguments.begin(),
                     {test::kCheckKernels, "--build", folder_.path(), "--page", page_, "--rounds", "1"});
    return test::run_child(arguments);
  }

  test::TemporaryFolder folder_;
  std::string page_ = folder_.path("page.md");
};

TEST_F(CheckKernels, PassesWhereNoRatioIsWorseByMoreThanAFifth) {
  crc(119, 100);
  const ChildResult result = check();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("| crc/100 | ISA-L's `crc32_iscsi` | 119 | 100 | 1.19 | ≤ 1.11 |"),
                                HasSubstr("| gather | `memcpy` of the same rows | 30 | 20 | 1.5 | ≤ 1.43 |"),
                                Not(HasSubstr("without_a_floor"))));
}

TEST_F(CheckKernels, FailsWhereARatioIsWorseByMoreThanAFifth) {
  crc(121, 100);
  const ChildResult result = check();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("crc/100: 1.21 times the floor, 1 in the table: worse by 21%"),
                                Not(HasSubstr("gather:"))));
}

TEST_F(CheckKernels, TakesTheMedianOfTheRounds) {
  write_program("formats", {{"crc/100", {110, 300, 111}}, {"crc_floor/100", {100, 100, 101}}});
  const ChildResult result = check({"--rounds", "3", "--attempts", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("| 111 | 100 | **1.1** |"));
}

TEST_F(CheckKernels, MeasuresAgainWhatIsTooSlowAndNothingElse) {
  write_program("formats", {{"crc/100", {200, 110, 110}}, {"crc_floor/100", {100}}});
  const ChildResult result = check({"--attempts", "3"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("| 110 | 100 | **1.1** |"));
  EXPECT_EQ(num_calls("formats"), 3);
  EXPECT_EQ(num_calls("ops"), 1);
}

TEST_F(CheckKernels, GivesUpAfterTheLastAttempt) {
  write_program("formats", {{"crc/100", {200, 110, 110}}, {"crc_floor/100", {100}}});
  EXPECT_EQ(check({"--attempts", "2"}).exit_code, 1);
  EXPECT_EQ(num_calls("formats"), 2);
}

TEST_F(CheckKernels, FailsWhereTableAndBenchmarksHaveNotTheSameKernels) {
  write_table({"| crc/100 | ISA-L | 10 | 10 | 1 | ≤ 1.11 | then, there |",
               "| shuffle | copies | 30 | 20 | 1.5 | | then, there |"});
  const ChildResult result = check();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("gather is not in the table"), HasSubstr("shuffle is in the table")));
  EXPECT_EQ(check({"--only", "crc"}).exit_code, 0);
}

TEST_F(CheckKernels, WritesTheTableInItsPlace) {
  crc(300, 100);
  EXPECT_EQ(check({"--write"}).exit_code, 0);
  EXPECT_THAT(read_file(page_),
              AllOf(HasSubstr("# Page\n\n<!-- kernels: begin -->\n"), HasSubstr("| 300 | 100 | 3 | ≤ 1.11 |"),
                    HasSubstr("<!-- kernels: end -->\n\nThe rest.\n"), Not(HasSubstr("old"))));
  EXPECT_EQ(check().exit_code, 0);
}

TEST_F(CheckKernels, WritesTheRowsOfSomeKernelsAndKeepsTheOthers) {
  crc(300, 100);
  EXPECT_EQ(check({"--write", "--only", "crc"}).exit_code, 0);
  // Each with the day and the processor of its own measurement.
  EXPECT_THAT(read_file(page_),
              AllOf(ContainsRegex("\\| 300 \\| 100 \\| 3 \\| ≤ 1.11 \\| 20[0-9-]+, [^|]+, 1 round \\|\n\\| gather"),
                    HasSubstr("| gather | memcpy | 30 | 20 | **1.5** | ≤ 1.43 | then, there |\n")));
}

TEST_F(CheckKernels, RefusesKernelsThatThereAreNot) {
  const ChildResult result = check({"--only", "crc32"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("no kernel crc32; there are: crc/100, gather"));
}

}  // namespace
}  // namespace millrace::check_kernels_test
