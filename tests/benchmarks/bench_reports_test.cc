// What dataset_bench says about a run: --json, --html, --trace, --sweep, --compare.
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/tfrecord/writer.h"
#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::bench_reports_test {
namespace {

using nlohmann::ordered_json;
using test::ChildResult;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BenchReports : public testing::Test {
 protected:
  void SetUp() override {
    for (int shard = 0; shard < 4; ++shard) {
      RecordWriter writer(folder_.path(fmt::format("{}.tfrecord", shard)), {});
      for (int r = 0; r < 5000; ++r) writer.write(fmt::format("record {} of {}", r, shard));
      writer.close();
    }
  }
  ChildResult bench(std::vector<std::string> arguments) const {
    const std::vector<std::string> first = {test::kDatasetBench, "read", "--shards", folder_.path("*.tfrecord")};
    arguments.insert(arguments.begin(), first.begin(), first.end());
    return test::run_child(arguments);
  }
  ChildResult timed(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--seconds", "0.1", "--warmup-seconds", "0"});
    return bench(std::move(arguments));
  }

  test::TemporaryFolder folder_;
};

TEST_F(BenchReports, HaveAllNumbersOfStagesLatenciesAndSamples) {
  const ChildResult run = timed({"--json", "--threads", "2", "--rounds", "3"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const ordered_json json = ordered_json::parse(run.out);
  const ordered_json& latency = json.at("next_us");
  EXPECT_GT(latency.at("p50"), 0);
  EXPECT_LE(latency.at("p50"), latency.at("p90"));
  EXPECT_LE(latency.at("p90"), latency.at("p99"));
  EXPECT_LE(latency.at("p99"), latency.at("max"));
  const size_t stages = json.at("stages").size();
  EXPECT_GT(stages, 3U);
  for (const ordered_json& stage : json.at("stages")) {
    EXPECT_GT(stage.at("rows"), 0);
    EXPECT_GT(stage.at("bytes"), 0);
    EXPECT_GE(stage.at("busy_s"), 0);
    EXPECT_GT(stage.at("queue_high_water"), 0);
    EXPECT_LE(stage.at("queue_high_water"), stage.at("queue_slots"));
  }
  EXPECT_THAT(json.at("stages").back().at("inputs"), ElementsAre(0));
  ASSERT_GT(json.at("samples").size(), 2U);
  double seconds = -1;
  int64_t records = -1;
  for (const ordered_json& sample : json.at("samples")) {
    EXPECT_GT(sample.at("s"), seconds);
    EXPECT_GE(sample.at("records"), records);
    EXPECT_EQ(sample.at("queue").size(), stages);
    EXPECT_EQ(sample.at("busy_s").size(), stages);
    EXPECT_GT(sample.at("rss_mb"), 0);
    seconds = sample.at("s");
    records = sample.at("records");
  }
  EXPECT_EQ(records, json.at("records"));
  EXPECT_EQ(json.at("rounds").size(), 3U);
  EXPECT_EQ(json.at("options").at("threads"), 2);
  EXPECT_EQ(json.at("shards").at("files"), 4);
  EXPECT_GT(json.at("machine").at("cores"), 0);
  EXPECT_THAT(json.at("limited_by").get<std::string>(), HasSubstr(json.at("bottleneck").get<std::string>()));
}

TEST_F(BenchReports, WriteAPageAndATrace) {
  const std::string page = folder_.path("run.html");
  const std::string trace = folder_.path("run.trace.json");
  const ChildResult run = timed({"--json", "--html", page, "--trace", trace});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(test::read_file(page), HasSubstr("\"workload\":\"read\""));
  const ordered_json result = ordered_json::parse(run.out);
  std::set<std::string> names;
  for (const ordered_json& event : ordered_json::parse(test::read_file(trace))) names.insert(event.at("name"));
  for (const ordered_json& stage : result.at("stages")) EXPECT_TRUE(names.contains(stage.at("name"))) << stage;
  EXPECT_TRUE(names.contains("read"));
  EXPECT_TRUE(result.contains("trace_dropped"));
}

TEST_F(BenchReports, AreRefusedBeforeTheRunWhereTheyCannotBeWritten) {
  for (const char* report : {"--html", "--trace"}) {
    const ChildResult nowhere =
        test::run_child({test::kDatasetBench, "noop", "--seconds", "36000", report, folder_.path("no/folder")});
    EXPECT_EQ(nowhere.exit_code, 1);
    EXPECT_THAT(nowhere.err, HasSubstr("cannot write the file: No such file or directory"));
  }
}

TEST_F(BenchReports, GiveTheSameStreamWithTraceAndWithoutStatistics) {
  const auto hash = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--json", "--batches", "50"});
    const ChildResult run = bench(std::move(arguments));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return ordered_json::parse(run.out).at("stream_hash").get<std::string>();
  };
  const std::string expected = hash({});
  EXPECT_EQ(hash({"--trace", folder_.path("t")}), expected);
  EXPECT_EQ(hash({"--no-statistics"}), expected);
  EXPECT_NE(hash({"--block-length", "3"}), expected);
  EXPECT_EQ(hash({"--prefetch", "7"}), expected);
}

TEST_F(BenchReports, SweepEveryCombinationAndCheckTheStreams) {
  const ChildResult run = timed({"--json", "--sweep", "batch=8,16", "--sweep", "threads=1,2", "--rounds", "1"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const ordered_json json = ordered_json::parse(run.out);
  ASSERT_EQ(json.at("runs").size(), 4U);
  std::vector<std::string> hashes;
  double least = 1e9;
  for (const ordered_json& one : json.at("runs")) {
    EXPECT_EQ(one.at("result").at("options").at("batch"), one.at("values").at("batch"));
    EXPECT_EQ(one.at("result").at("threads"), one.at("values").at("threads"));
    hashes.push_back(one.at("stream_hash"));
    least = std::min(least, one.at("result").at("us_wall_per_record").get<double>());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[2], hashes[3]);
  EXPECT_NE(hashes[0], hashes[2]);
  EXPECT_EQ(json.at("runs")[json.at("best").get<size_t>()].at("result").at("us_wall_per_record"), least);
  EXPECT_THAT(timed({"--sweep", "prefetch=1,2", "--rounds", "1"}).out, HasSubstr(" * "));
}

TEST_F(BenchReports, SweepHowShardsAreRead) {
  const ChildResult run =
      timed({"--json", "--sweep", "chunk-bytes=16384,1048576", "--sweep", "read-ahead=0,7", "--rounds", "1"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const ordered_json runs = ordered_json::parse(run.out).at("runs");
  ASSERT_EQ(runs.size(), 4U);
  for (const ordered_json& one : runs) {
    EXPECT_EQ(one.at("stream_hash"), runs[0].at("stream_hash"));
    EXPECT_EQ(one.at("result").at("options").at("chunk_bytes"), one.at("values").at("chunk-bytes"));
    EXPECT_EQ(one.at("result").at("options").at("read_ahead"), one.at("values").at("read-ahead"));
  }
  EXPECT_THAT(timed({"--sweep", "chunk-bytes=1"}).err, HasSubstr("--sweep chunk-bytes: 1; 16384 to "));
}

TEST_F(BenchReports, SweepAnOptionByTheBeginningOfItsName) {
  const ChildResult run = timed({"--json", "--sweep", "block=1,4", "--rounds", "1"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const ordered_json runs = ordered_json::parse(run.out).at("runs");
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[1].at("values").at("block-length"), 4);
  EXPECT_EQ(runs[1].at("result").at("options").at("block_length"), 4);
}

TEST_F(BenchReports, RefuseToSweepWhatCannotBeSwept) {
  const auto error = [&](const char* sweep) { return timed({"--sweep", sweep}).err; };
  EXPECT_THAT(error("colour=1"), HasSubstr("no option 'colour'; there are: threads, batch, shuffle"));
  EXPECT_THAT(error("c=1"), HasSubstr("'c' may be any of cycle-length, chunk-bytes, consumer-us"));
  EXPECT_THAT(timed({"--sweep", "threads=1", "--sweep", "thr=2"}).err, HasSubstr("--sweep threads is there twice"));
  EXPECT_THAT(error("shuffle=1"), HasSubstr("--sweep shuffle has no effect with the workload read"));
  EXPECT_THAT(error("batch=1,,2"), HasSubstr("'' is no whole number"));
  EXPECT_THAT(error("batch=4x"), HasSubstr("'4x' is no whole number"));
  EXPECT_THAT(error("batch=0"), HasSubstr("0; 1 to 1000000000 are possible"));
  EXPECT_THAT(error("batch"), HasSubstr("must be KEY=A,B,C"));
}

TEST_F(BenchReports, CountTheTimeOfTheConsumer) {
  const ChildResult run = bench({"--json", "--batches", "10", "--consumer-us", "3000"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const ordered_json json = ordered_json::parse(run.out);
  EXPECT_GE(json.at("us_wall_per_record").get<double>() * json.at("records").get<double>(),
            3000 * json.at("batches").get<double>());
}

TEST_F(BenchReports, CompareTwoResultsAndFailWhereTheSecondIsSlower) {
  const std::string fast = folder_.path("fast.json");
  const std::string slow = folder_.path("slow.json");
  // A run of its own for each of them would be as fast as the system lets it be.
  ordered_json result = ordered_json::parse(timed({"--json"}).out);
  test::write_file(fast, result.dump());
  result.at("options").at("consumer_us") = 3000;
  ordered_json& wall = result.at("us_wall_per_record");
  wall = 100 * wall.get<double>();
  test::write_file(slow, result.dump());
  const auto compare = [](const std::string& a, const std::string& b, const char* most) {
    return test::run_child({test::kDatasetBench, "--compare", a, b, "--max-slowdown", most});
  };
  const ChildResult slower = compare(fast, slow, "1.5");
  EXPECT_EQ(slower.exit_code, 1);
  EXPECT_THAT(slower.err, HasSubstr("times as long, more than 1.5 times"));
  EXPECT_THAT(slower.out, HasSubstr("us wall per record"));
  EXPECT_THAT(slower.out, HasSubstr("consumer_us was 0, then 3000"));
  EXPECT_EQ(compare(slow, fast, "1.5").exit_code, 0);
  EXPECT_EQ(compare(fast, fast, "1.0").exit_code, 0);
  const ChildResult one = test::run_child({test::kDatasetBench, "--compare", fast});
  EXPECT_THAT(one.err, HasSubstr("--compare needs two files with results, not 1"));
  EXPECT_THAT(bench({"--compare", fast, slow}).err, HasSubstr("has no effect with --compare"));
}

}  // namespace
}  // namespace millrace::bench_reports_test
