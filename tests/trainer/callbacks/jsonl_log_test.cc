#include "millrace/trainer/callbacks/jsonl_log.h"

#include <fstream>
#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"
#include "tests/trainer/toy_training.h"

namespace millrace::jsonl_log_test {
namespace {

using nlohmann::json;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing::IsSupersetOf;
using testing_models::RegressionSource;
using testing_models::thrown_by;
using testing_models::ToyTraining;

std::vector<json> lines_of(const std::string& path) {
  std::vector<json> lines;
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

std::set<std::string> names_of(const json& object) {
  std::set<std::string> names;
  for (const auto& [name, value] : object.items()) names.insert(name);
  return names;
}

TEST(JsonlLog, WritesAnObjectForEachEvent) {
  const TemporaryFolder folder;
  ToyTraining toy({.step = {.seed = 4},
                   .total_steps = 6,
                   .report_every = 3,
                   .token_features = {"x"},
                   .evaluation = [] { return std::make_unique<RegressionSource>(2); },
                   .checkpoint_folder = folder.path("checkpoints")});
  toy.trainer.add_callback(std::make_unique<JsonlLog>(folder.path("log.jsonl")));
  RegressionSource source(100, 0, 4);
  source.spoilt_from = 1;
  source.spoilt_to = 2;
  toy.trainer.train(source);

  const std::vector<json> lines = lines_of(folder.path("log.jsonl"));
  std::vector<std::string> events;
  for (const json& line : lines) events.push_back(line.at("event"));
  EXPECT_THAT(events, ElementsAre("start", "report", "skip", "report", "evaluation", "epoch", "checkpoint", "report",
                                  "evaluation", "checkpoint", "end"));
  EXPECT_THAT(names_of(lines[0]), IsSupersetOf({"step", "total_steps", "num_parameters", "replicas", "accumulate",
                                                "seed", "optimizer", "schedule"}));
  EXPECT_EQ(lines[0].at("seed"), 4);
  EXPECT_EQ(lines[0].at("optimizer"), toy.trainer.optimizer().describe());
  EXPECT_EQ(lines[0].at("num_parameters"), 5 * 7 + 7 + 7 + 1);
  EXPECT_EQ(lines[0].at("num_trained"), 5 * 7 + 7 + 7 + 1);

  EXPECT_EQ(lines[2].at("step"), 2);
  EXPECT_TRUE(lines[2].at("loss").is_null());
  EXPECT_EQ(lines[2].at("reason"), "step 2 (batch 1): the loss of replica 1 is nan (weight 2); the update was skipped");

  const json& report = lines[3];
  const std::vector<std::string> promised = {"step",
                                             "epoch",
                                             "steps",
                                             "loss",
                                             "learning_rate",
                                             "gradient_norm",
                                             "rows",
                                             "tokens",
                                             "seconds",
                                             "rows_per_s",
                                             "tokens_per_s",
                                             "input_wait_share",
                                             "skipped_updates",
                                             "last_skip",
                                             "limiting_stage",
                                             "after_backward_share",
                                             "time",
                                             "metrics"};
  EXPECT_THAT(names_of(report), IsSupersetOf(promised));
  EXPECT_EQ(report.at("step"), 3);
  EXPECT_EQ(report.at("steps"), 2);
  EXPECT_EQ(report.at("rows"), 15 + 14);
  EXPECT_EQ(report.at("tokens"), 5 * (15 + 14));
  EXPECT_EQ(report.at("skipped_updates"), 1);
  EXPECT_EQ(report.at("last_skip"), lines[2].at("reason"));
  EXPECT_EQ(report.at("limiting_stage"), "2:map");

  EXPECT_EQ(lines[4].at("rows"), 31);
  EXPECT_EQ(lines[4].at("weight"), 31);
  EXPECT_EQ(lines[5].at("epoch"), 0);
  EXPECT_EQ(lines[6].at("path"), folder.path("checkpoints/checkpoint-00000004"));

  const json& end = lines.back();
  EXPECT_THAT(names_of(end), IsSupersetOf(promised));
  EXPECT_EQ(end.at("stopped"), false);
  EXPECT_EQ(end.at("data_ended"), false);
  EXPECT_EQ(end.at("steps"), 6);
  EXPECT_EQ(end.at("last_checkpoint"), folder.path("checkpoints/checkpoint-00000006"));
  EXPECT_EQ(end.at("first_loss"), lines[1].at("loss"));
}

TEST(JsonlLog, NumbersComeBackAsTheyWere) {
  const TemporaryFolder folder;
  JsonlLog log(folder.path("log.jsonl"));
  log.report({.loss = 0.1 + 0.2, .learning_rate = 1.0 / 3});
  const json line = lines_of(folder.path("log.jsonl")).at(0);
  EXPECT_EQ(line.at("loss").get<double>(), 0.1 + 0.2);
  EXPECT_EQ(line.at("learning_rate").get<double>(), 1.0 / 3);
}

TEST(JsonlLog, NumbersThatAreNotFiniteAreNull) {
  const TemporaryFolder folder;
  JsonlLog log(folder.path("log.jsonl"));
  log.report(
      {.loss = std::numeric_limits<double>::quiet_NaN(), .gradient_norm = std::numeric_limits<double>::infinity()});
  const json line = lines_of(folder.path("log.jsonl")).at(0);
  EXPECT_TRUE(line.at("loss").is_null());
  EXPECT_TRUE(line.at("gradient_norm").is_null());
}

TEST(JsonlLog, NamesThatAreNotUtf8StillGiveALineThatParses) {
  const TemporaryFolder folder;
  JsonlLog log(folder.path("log.jsonl"));
  log.checkpoint_written("caf\xe9");
  EXPECT_EQ(lines_of(folder.path("log.jsonl")).at(0).at("path"), "caf\xef\xbf\xbd");
}

TEST(JsonlLog, AppendsToALogThatIsThereAlsoBehindATornLine) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("log.jsonl")) << "{\"event\":\"epoch\"}\n{\"event\":\"repo";
  JsonlLog(folder.path("log.jsonl")).epoch_ends({.epoch = 1, .step = 7});
  JsonlLog(folder.path("log.jsonl")).epoch_ends({.epoch = 2, .step = 9});
  std::ifstream stream(folder.path("log.jsonl"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  EXPECT_THAT(lines,
              ElementsAre("{\"event\":\"epoch\"}", "{\"event\":\"repo", "{\"event\":\"epoch\",\"step\":7,\"epoch\":1}",
                          "{\"event\":\"epoch\",\"step\":9,\"epoch\":2}"));
}

TEST(JsonlLog, AFileThatCannotBeOpenedOrWrittenIsNamed) {
  const TemporaryFolder folder;
  EXPECT_EQ(thrown_by([&] { const JsonlLog log(folder.path("missing/log.jsonl")); }),
            "io: cannot open the file: No such file or directory (file " + (folder.path("missing/log.jsonl")) + ")");
  JsonlLog full("/dev/full");
  EXPECT_EQ(thrown_by([&] { full.epoch_ends({}); }), "io: cannot write: No space left on device (file /dev/full)");
}

}  // namespace
}  // namespace millrace::jsonl_log_test
