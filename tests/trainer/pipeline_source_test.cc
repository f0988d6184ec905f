#include "trainer/pipeline_source.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "pipeline/dataset.h"
#include "pipeline/worker_limit.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/toy_training.h"
#include "trainer/callbacks/jsonl_log.h"
#include "trainer/callbacks/progress_bar.h"

namespace millrace::pipeline_source_test {
namespace {

using test::TemporaryFolder;
using testing::ElementsAre;
using testing_models::RegressionBatch;
using testing_models::thrown_by;
using testing_models::ToyTraining;

// The rows of a RegressionBatch as a dataset.
Dataset regression_rows(int64_t rows) {
  const RegressionBatch batch(rows);
  std::vector<std::vector<float>> x;
  for (int64_t row = 0; row < rows; ++row) x.emplace_back(batch.x.begin() + 5 * row, batch.x.begin() + 5 * row + 5);
  return Dataset::rows({{"x", x}, {"y", batch.y}});
}

TEST(PipelineSource, GivesTheBatchesOfAPipelineWithTheirEpochs) {
  std::vector<std::vector<int64_t>> values;
  std::vector<int64_t> epochs;
  PipelineSource source(Dataset::range(0, 5).batch(2).repeat(2).start({.threads = 1}));
  std::vector<GlobalBatch> kept;  // batches live on by themselves
  while (std::optional<GlobalBatch> batch = source.next()) kept.push_back(*std::move(batch));
  for (const GlobalBatch& batch : kept) {
    const auto there = batch.view.feature("value").values<int64_t>();
    values.emplace_back(there.begin(), there.end());
    epochs.push_back(batch.epoch);
    EXPECT_EQ(batch.view.rows(), static_cast<int64_t>(there.size()));
  }
  EXPECT_THAT(values, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4), ElementsAre(0, 1),
                                  ElementsAre(2, 3), ElementsAre(4)));
  EXPECT_THAT(epochs, ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_FALSE(source.next().has_value());
}

TEST(PipelineSource, LeavesOutFeaturesThatAreNoNumbers) {
  PipelineSource source(Dataset::rows({{"name", std::vector<std::string>{"a", "b"}},
                                       {"id", std::vector<int32_t>{7, 8}},
                                       {"tokens", std::vector<std::vector<float>>{{1, 2, 3}, {4, 5, 6}}}})
                            .batch(2)
                            .start({.threads = 1}));
  const std::optional<GlobalBatch> batch = source.next();
  ASSERT_TRUE(batch.has_value());
  std::vector<std::string> names;
  for (const FeatureView& feature : batch->view.features()) names.push_back(feature.name());
  EXPECT_THAT(names, ElementsAre("id", "tokens"));
  EXPECT_THAT(batch->view.feature("id").values<int32_t>(), ElementsAre(7, 8));
  EXPECT_THAT(batch->view.feature("tokens").shape(), ElementsAre(2, 3));
  EXPECT_EQ(thrown_by([&] { batch->view.feature("name"); }).substr(0, 16), "missing_feature:");
}

TEST(PipelineSource, APipelineWithoutBatchIsAnError) {
  PipelineSource source(regression_rows(3).start({.threads = 1}));
  EXPECT_THAT(thrown_by([&] { source.next(); }), testing::StartsWith("wrong_shape: "));
}

TEST(PipelineSource, AnErrorInTheStreamEndsTheTrainingAtItsBatch) {
  const Dataset dataset = regression_rows(64)
                              .map(RowFunction{.name = "bad_row",
                                               .writes = {{.name = "y", .dtype = DType::kFloat32, .shape = {}}},
                                               .function =
                                                   [](const RowView& row, RowWriter& out) {
                                                     const float y = row.value<float>("y");
                                                     if (y == RegressionBatch(64).y[41])
                                                       throw std::runtime_error("bad");
                                                     out.set("y", y);
                                                   }})
                              .batch(8);
  ToyTraining toy({.step = {.threads = 1}});
  PipelineSource source(dataset.start({.threads = 1}));
  EXPECT_THAT(thrown_by([&] { toy.trainer.train(source); }),
              testing::AllOf(testing::StartsWith("user_function: "), testing::HasSubstr("bad")));
  EXPECT_EQ(toy.trainer.step(), 5);
}

TEST(PipelineSource, TrainsBitForBitTheSameForAnyNumberOfPipelineThreads) {
  std::vector<float> expected;
  for (const int threads : {1, 2, 4}) {
    const WorkerLimit limit(threads);
    const Dataset dataset = regression_rows(100).shuffle(50, {.seed = 3}).repeat(3).batch(16, {.drop_remainder = true});
    ToyTraining toy({.step = {.threads = 2}, .evaluation = [&] {
                       return std::make_unique<PipelineSource>(regression_rows(30).batch(8).start({.threads = 1}));
                     }});
    std::vector<int64_t> rows;
    class Rows final : public Callback {
     public:
      explicit Rows(std::vector<int64_t>& evaluated) : evaluated_(evaluated) {}
      void evaluation_ends(const EvaluationReport& report) override { evaluated_.push_back(report.rows); }

     private:
      std::vector<int64_t>& evaluated_;
    };
    toy.trainer.add_callback(std::make_unique<Rows>(rows));
    PipelineSource source(dataset.start({.threads = threads}));
    const TrainingSummary summary = toy.trainer.train(source);
    EXPECT_EQ(summary.step, 18);  // 300 rows; batches span epochs
    EXPECT_EQ(summary.whole.epoch, 2);
    EXPECT_THAT(rows, ElementsAre(30, 30, 30)) << "all rows, after each epoch";
    if (threads == 1) expected = toy.weights();
    EXPECT_EQ(toy.weights(), expected) << threads << " threads";
  }
}

// What a training said in all its ways: as its result, on a screen, in its log.
struct Told {
  TrainingSummary summary;
  std::string screen;
  std::vector<nlohmann::json> log;
};

// A training on a pipeline whose map takes its time over each row: 60 steps of 8 rows, one for each replica.
Told train_behind(std::chrono::microseconds map_time, std::chrono::microseconds replica_time) {
  const RowFunction map{.name = "slow",
                        .writes = {{.name = "y", .dtype = DType::kFloat32, .shape = {}}},
                        .function = [=](const RowView& row, RowWriter& out) {
                          std::this_thread::sleep_for(map_time);
                          out.set("y", row.value<float>("y"));
                        }};
  const WorkerLimit limit(2);
  const TemporaryFolder folder;
  char* text = nullptr;
  size_t size = 0;
  std::FILE* screen = ::open_memstream(&text, &size);
  Told told;
  {
    ToyTraining toy({.step = {.threads = 1}, .report_every = 10});
    toy.model.before_step = [=](const ReplicaContext&) { std::this_thread::sleep_for(replica_time); };
    toy.trainer.add_callback(std::make_unique<ProgressBar>(screen, false));
    toy.trainer.add_callback(std::make_unique<JsonlLog>(folder.path("log.jsonl")));
    PipelineSource source(regression_rows(48).repeat(10).map(map).batch(8).prefetch(2).start({.threads = 1}));
    told.summary = toy.trainer.train(source);
  }
  std::fclose(screen);
  told.screen = std::string(text, size);
  std::free(text);
  std::ifstream log(folder.path("log.jsonl"));
  for (std::string line; std::getline(log, line);) told.log.push_back(nlohmann::json::parse(line));
  return told;
}

TEST(PipelineSource, ASlowMapRaisesTheShareOfWaitingAndIsNamedOnTheScreenInTheLogAndInTheSummary) {
  using std::chrono::microseconds;
  const Told slow = train_behind(microseconds(500), microseconds(0));
  EXPECT_EQ(slow.summary.whole.steps, 60);
  EXPECT_GT(slow.summary.whole.input_wait_share, 0.5);
  EXPECT_EQ(slow.summary.whole.limiting_stage, "2:map");
  EXPECT_THAT(slow.screen,
              testing::ContainsRegex("step [0-9]+ [^\n]* waiting for input [0-9.]+% \\(limited by 2:map\\)\n"));
  EXPECT_THAT(slow.screen, testing::ContainsRegex(
                               "done after 60 [^\n]* waiting for input [0-9.]+% of the time \\(limited by 2:map\\)\n"));
  // Batches come a block at a time, so not every report has a wait; at the first one no block has come out of the map.
  const nlohmann::json* worst = nullptr;
  for (const nlohmann::json& line : slow.log) {
    if (line.at("event") != "report" || line.at("step") == 1) continue;
    if (worst == nullptr || line.at("input_wait_share") > worst->at("input_wait_share")) worst = &line;
  }
  ASSERT_NE(worst, nullptr);
  for (const nlohmann::json& line : {*worst, slow.log.back()}) {
    EXPECT_GT(line.at("input_wait_share"), 0.5) << line;
    EXPECT_EQ(line.at("limiting_stage"), "2:map") << line;
  }
  EXPECT_EQ(slow.log.back().at("event"), "end");

  const Told fast = train_behind(microseconds(0), microseconds(500));
  EXPECT_LT(fast.summary.whole.input_wait_share, 0.2 * slow.summary.whole.input_wait_share);
  EXPECT_EQ(fast.summary.whole.limiting_stage, "consumer");
  EXPECT_THAT(fast.screen, testing::ContainsRegex("done after 60 [^\n]* waiting for input [0-9.]+% of the time\n"));
}

TEST(PipelineSource, AnOperatorThatIsAlwaysAtWorkIsNamedAlsoWhenTheTrainerWaitsLittle) {
  // Two threads; the trainer has waited for 1 s of 10.
  Statistics statistics{.stages = {{.name = "0:tfrecord", .copies = 4, .busy_seconds = 9},
                                   {.name = "1:shuffle", .busy_seconds = 7.5},
                                   {.name = "2:map", .parallel = true, .busy_seconds = 18}},
                        .wall_seconds = 10,
                        .consumer_waiting_seconds = 1,
                        .threads = 2};
  EXPECT_EQ(limiting_stage(statistics), "2:map");
  statistics.stages[2].busy_seconds = 13;  // of 20 that two threads have
  EXPECT_EQ(limiting_stage(statistics), "1:shuffle");
  statistics.stages[1].busy_seconds = 6;
  EXPECT_EQ(limiting_stage(statistics), "consumer");
  statistics.stages[0].busy_seconds = 29;  // of 40 that four lanes have
  EXPECT_EQ(limiting_stage(statistics), "0:tfrecord");
}

TEST(PipelineSource, AnOperatorThatIsAlwaysAtWorkIsNamedAlsoWhenTheOnlyWorkerLeavesTheOthersNoTimeToWait) {
  Statistics statistics{.stages = {{.name = "0:rows", .segment = 0},
                                   {.name = "2:map", .segment = 0, .parallel = true, .busy_seconds = 9.9},
                                   {.name = "3:batch", .segment = 1, .busy_seconds = 0.1}},
                        .wall_seconds = 10,
                        .consumer_waiting_seconds = 9.9,
                        .threads = 1};
  EXPECT_EQ(limiting_stage(statistics), "2:map");
  statistics.stages[1].busy_seconds = 5;
  EXPECT_EQ(limiting_stage(statistics), statistics.bottleneck());
}

}  // namespace
}  // namespace millrace::pipeline_source_test
