#include "trainer/pipeline_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/dataset.h"
#include "pipeline/worker_limit.h"
#include "tests/trainer/toy_training.h"

namespace millrace {
namespace {

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

// A training on a pipeline with a map that takes its time.
TrainingSummary train_behind(std::chrono::microseconds map_time, std::chrono::microseconds step_time) {
  const RowFunction map{.name = "slow",
                        .writes = {{.name = "y", .dtype = DType::kFloat32, .shape = {}}},
                        .function = [=](const RowView& row, RowWriter& out) {
                          std::this_thread::sleep_for(map_time);
                          out.set("y", row.value<float>("y"));
                        }};
  const WorkerLimit limit(2);
  ToyTraining toy({.step = {.threads = 1}, .report_every = 10});
  toy.model.before_step = [=](const ReplicaContext&) { std::this_thread::sleep_for(step_time); };
  PipelineSource source(regression_rows(400).repeat(10).map(map).batch(80).prefetch(2).start({.threads = 1}));
  return toy.trainer.train(source);
}

TEST(PipelineSource, ASlowMapRaisesTheShareOfWaitingAndIsNamed) {
  using std::chrono::microseconds;
  const TrainingSummary slow = train_behind(microseconds(100), microseconds(0));
  const TrainingSummary fast = train_behind(microseconds(0), microseconds(500));
  EXPECT_EQ(slow.whole.steps, 50);
  EXPECT_EQ(slow.whole.limiting_stage, "2:map");
  EXPECT_NE(fast.whole.limiting_stage, "2:map");
  EXPECT_GT(slow.whole.input_wait_share, 0.5);
  EXPECT_LT(fast.whole.input_wait_share, 0.5 * slow.whole.input_wait_share);
}

}  // namespace
}  // namespace millrace
