#include "benchmarks/result_comparison.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"

namespace millrace::result_comparison_test {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ordered_json result(std::vector<double> walls) {
  ordered_json json = ordered_json::parse(R"({
    "workload": "mlm", "us_wall_per_record": 0, "us_cpu_per_record": 4, "first_batch_ms": 10, "peak_rss_mb": 100,
    "batches": 50, "stream_hash": null, "next_us": {"p50": 1, "p90": 2, "p99": 3},
    "stages": [{"name": "0:read", "rows": 1000, "busy_s": 0.001}, {"name": "1:batch", "rows": 500, "busy_s": 0.002}],
    "options": {"threads": 4, "batch": 8, "shuffle": 100, "cycle_length": 2, "block_length": 1, "prefetch": 2,
                "cache": false, "seed": 1, "ordered": true, "memory_mb": 0, "consumer_us": 0, "disabled_rewrites": []},
    "shards": {"pattern": "a", "files": 3, "bytes": 300}, "machine": {"cores": 4}})");
  json["us_wall_per_record"] = walls[walls.size() / 2];
  if (walls.size() == 1) return json;
  for (const double wall : walls) {
    json["rounds"].push_back(
        {{"us_wall_per_record", wall}, {"us_cpu_per_record", 4}, {"first_batch_ms", 10}, {"next_p99_us", 3}});
  }
  return json;
}

TEST(ResultComparison, GivesRatiosAndMarksWhatIsBeyondTheSpreadOfTheRounds) {
  const auto differs = [](const std::vector<double>& before, const std::vector<double>& after) {
    return compare_results(result(before), result(after)).metrics.front().differs;
  };
  EXPECT_DOUBLE_EQ(compare_results(result({2}), result({3})).slowdown, 1.5);
  EXPECT_TRUE(differs({1.0, 1.1, 1.2}, {1.21, 1.3, 1.4}));
  EXPECT_TRUE(differs({1.21, 1.3, 1.4}, {1.0, 1.1, 1.2}));
  EXPECT_FALSE(differs({1.0, 1.1, 1.22}, {1.21, 1.3, 1.4}));
  EXPECT_TRUE(differs({1.0}, {1.2}));
  EXPECT_FALSE(differs({1.0}, {1.05}));
}

TEST(ResultComparison, ComparesTheWorkOfStagesForARow) {
  ordered_json after = result({1});
  after["stages"][0]["busy_s"] = 0.003;
  after["stages"][1] = {{"name", "1:bigger_batch"}, {"rows", 1000}, {"busy_s", 0.001}};
  const ResultComparison comparison = compare_results(result({1}), after);
  ASSERT_EQ(comparison.stages.size(), 1U);
  EXPECT_EQ(comparison.stages[0].name, "0:read");
  EXPECT_DOUBLE_EQ(comparison.stages[0].before, 2);
  EXPECT_DOUBLE_EQ(comparison.stages[0].after, 3);
  EXPECT_TRUE(comparison.stages[0].differs);
  EXPECT_THAT(comparison.remarks, ElementsAre("stage 1:batch is in the first result only",
                                              "stage 1:bigger_batch is in the second result only"));
  EXPECT_THAT(comparison.to_table(), HasSubstr("1.500  more"));
}

TEST(ResultComparison, PrintsNoNameOfAFileRaw) {
  ordered_json before = result({1});
  before["stages"][0]["name"] = "\x1b[31mred";
  ordered_json after = before;
  before["stages"][1]["name"] = "new\nline";
  const std::string table = compare_results(before, after).to_table();
  EXPECT_THAT(table, HasSubstr("\n\\x1b[31mred  "));
  EXPECT_THAT(table, HasSubstr("\nstage new\\nline is in the first result only\n"));
}

TEST(ResultComparison, TellsWhatElseWasDifferent) {
  ordered_json after = result({1});
  after["options"]["threads"] = 2;
  EXPECT_THAT(compare_results(result({1}), after).remarks, ElementsAre("threads was 4, then 2"));
}

TEST(ResultComparison, RefusesOtherWorkloadsAndStreams) {
  const auto refused = [](const std::function<void(ordered_json&)>& change) -> std::string {
    ordered_json before = result({1});
    before["stream_hash"] = "aa";
    ordered_json after = before;
    change(after);
    try {
      (void)compare_results(before, after);
    } catch (const ErrorException& error) {
      return error.what();
    }
    return "not refused";
  };
  EXPECT_THAT(refused([](ordered_json& json) { json["workload"] = "read"; }), HasSubstr("different workloads"));
  for (const char* option : {"batch", "shuffle", "cycle_length", "block_length", "seed"}) {
    EXPECT_THAT(refused([&](ordered_json& json) { json["options"][option] = 77; }),
                HasSubstr(std::string("different streams, ") + option));
  }
  EXPECT_THAT(refused([](ordered_json& json) { json["shards"]["bytes"] = 301; }), HasSubstr("different shards"));
  EXPECT_THAT(refused([](ordered_json& json) { json["stream_hash"] = "bb"; }), HasSubstr("stream_hash"));
  EXPECT_THAT(refused([](ordered_json& json) { json.erase("stages"); }), HasSubstr("no result of dataset_bench"));
  EXPECT_EQ(refused([](ordered_json& json) { json["shards"]["pattern"] = "moved"; }), "not refused");
}

}  // namespace
}  // namespace millrace::result_comparison_test
