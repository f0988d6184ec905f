#include "millrace/trainer/pipeline_source.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"
#include "millrace/trainer/callbacks/jsonl_log.h"
#include "millrace/trainer/callbacks/progress_bar.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/toy_training.h"

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

TEST(PipelineSource, BatchesWithoutANumberAreAnError) {
  PipelineSource source(Dataset::rows({{"record", std::vector<std::string>{"a", "b"}}}).batch(2).start({.threads = 1}));
  EXPECT_EQ(thrown_by([&] { source.next(); }),
            "wrong_shape: the batch has only features of bytes: record; models read numbers");
}

TEST(PipelineSource, ARaggedFeatureIsAnErrorThatSaysHowToPadIt) {
  const std::vector<std::vector<int32_t>> words = {{1, 2, 3}, {4}};
  PipelineSource source(Dataset::rows({{"words", words}}).ragged_batch(2).start({.threads = 1}));
  EXPECT_EQ(thrown_by([&] { source.next(); }),
            "wrong_shape: feature 'words' of shape [2,ragged] is ragged; models need rows of one length: call "
            "`padded_batch` on the dataset");
}

TEST(PipelineSource, APipelineWithoutBatchIsAnError) {
  PipelineSource source(regression_rows(3).start({.threads = 1}));
  EXPECT_EQ(thrown_by([&] { source.next(); }),
            "wrong_shape: an element of the pipeline has 1 row(s), but feature 'x' has the shape [5]; a trainer needs "
            "batches: call `batch` on the dataset");
  // Features of one length could be taken for rows.
  PipelineSource alike(Dataset::rows({{"ids", std::vector<std::vector<int32_t>>{{1, 2, 3}}}}).start({.threads = 1}));
  EXPECT_THAT(thrown_by([&] { alike.next(); }), testing::HasSubstr("call `batch`"));
  PipelineSource numbers(Dataset::range(0, 3).start({.threads = 1}));
  EXPECT_THAT(thrown_by([&] { numbers.next(); }), testing::HasSubstr("has the shape []; a trainer needs batches"));
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

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// Takes four fifths of the time since it was made, and three times what the trainer takes: whatever the machine does in
// between, the next call makes up for it. One thread at a time.
class Slowness {
 public:
  void take(Clock::duration trainer = {}) {
    const auto begin = Clock::now();
    std::this_thread::sleep_for(std::max(4 * (begin - made_) - 5 * taken_, 3 * trainer - taken_));
    taken_ += Clock::now() - begin;
  }
  Clock::duration taken() const { return taken_; }

 private:
  Clock::time_point made_ = Clock::now();
  Clock::duration taken_{0};
};

// The batches of a pipeline, and what the trainer asks of it.
class ObservedSource final : public BatchSource {
 public:
  ObservedSource(Pipeline pipeline, std::atomic<Clock::duration>& outside)
      : source_(std::move(pipeline)), outside_(outside) {}
  std::optional<GlobalBatch> next() override {
    const auto begin = Clock::now();
    if (returned_) outside_ = outside_.load() + (begin - *returned_);
    std::optional<GlobalBatch> batch = source_.next();
    returned_ = Clock::now();
    inside_ += *returned_ - begin;
    return batch;
  }
  std::optional<PipelineState> save() const override { return source_.save(); }
  std::string limiting_stage() const override {
    named_.push_back(source_.limiting_stage());
    return named_.back();
  }
  Clock::duration inside() const { return inside_; }
  const std::vector<std::string>& named() const { return named_; }

 private:
  PipelineSource source_;
  std::atomic<Clock::duration>& outside_;  // of next(), since its first return
  Clock::duration inside_{0};
  std::optional<Clock::time_point> returned_;
  mutable std::vector<std::string> named_;
};

// Ends a training of 30 steps or more at a report after which all of it has waited for its input as a test wants.
class Until final : public Callback {
 public:
  using Condition = std::function<bool(double share, const TrainingReport& report)>;
  explicit Until(Condition condition) : condition_(std::move(condition)) {}
  void report(const TrainingReport& report) override {
    waited_ += report.seconds * report.input_wait_share;
    seconds_ += report.seconds;
    finished_ = report.step >= 30 && condition_(waited_ / seconds_, report);
  }
  bool finished() const override { return finished_; }

 private:
  Condition condition_;
  double waited_ = 0;
  double seconds_ = 0;
  bool finished_ = false;
};

// What a training said in all its ways: as its result, on a screen, in its log. And what its source knows.
struct Told {
  TrainingSummary summary;
  std::string screen;
  std::vector<nlohmann::json> log;
  std::vector<std::string> named;  // stages, for each report and for the result
  double waited = 0;               // seconds in next(), and
  double slept = 0;                // in steps
};

// A training on a pipeline, whose map takes most of the time, or its replicas: steps of 8 rows, one for each replica.
Told train_until(bool slow_map, Until::Condition condition) {
  Slowness slowness;
  std::atomic<Clock::duration> trainer{Clock::duration{0}};
  const RowFunction map{.name = "slow",
                        .writes = {{.name = "y", .dtype = DType::kFloat32, .shape = {}}},
                        .function = [&](const RowView& row, RowWriter& out) {
                          if (slow_map) slowness.take(trainer);
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
    toy.model.before_step = [&](const ReplicaContext&) {
      if (!slow_map) slowness.take();
    };
    toy.trainer.add_callback(std::make_unique<ProgressBar>(screen, false));
    toy.trainer.add_callback(std::make_unique<JsonlLog>(folder.path("log.jsonl")));
    toy.trainer.add_callback(std::make_unique<Until>(std::move(condition)));
    ObservedSource source(regression_rows(48).repeat(200).map(map).batch(8).prefetch(2).start({.threads = 1}), trainer);
    told.summary = toy.trainer.train(source);
    told.named = source.named();
    told.waited = seconds(source.inside());
    if (!slow_map) told.slept = seconds(slowness.taken());
  }
  std::fclose(screen);
  told.screen = std::string(text, size);
  std::free(text);
  std::ifstream log(folder.path("log.jsonl"));
  for (std::string line; std::getline(log, line);) told.log.push_back(nlohmann::json::parse(line));
  return told;
}

// Screen, log and result say the same, which is what the source knows.
void expect_one_story(const Told& told) {
  constexpr double kRounding = 1e-6;
  const auto limit_text = [](double share, const std::string& stage) {
    return share > 0.02 && stage != "consumer" ? fmt::format(" \\(limited by {}\\)", stage) : std::string();
  };
  const TrainingReport& whole = told.summary.whole;
  double waited = 0;
  size_t reports = 0;
  for (const nlohmann::json& line : told.log) {
    if (line.at("event") != "report") continue;
    ASSERT_LT(reports, told.named.size());
    const std::string& stage = told.named[reports++];
    EXPECT_EQ(line.at("limiting_stage"), stage) << line;
    const double share = line.at("input_wait_share");
    waited += share * line.at("seconds").get<double>();
    EXPECT_THAT(told.screen,
                testing::ContainsRegex(fmt::format("(^|\n)step {}  [^\n]*  waiting for input {:.1f}%{}\n",
                                                   line.at("step").get<int>(), 100 * share, limit_text(share, stage))));
  }
  ASSERT_EQ(told.named.size(), reports + 1);
  const std::string& stage = told.named.back();
  EXPECT_EQ(whole.limiting_stage, stage);
  EXPECT_NEAR(whole.seconds * whole.input_wait_share, waited, kRounding);
  EXPECT_GE(whole.seconds * whole.input_wait_share, told.waited - kRounding);
  EXPECT_GE(whole.seconds * (1 - whole.input_wait_share), told.slept - kRounding);
  EXPECT_THAT(told.screen, testing::ContainsRegex(fmt::format(
                               "\ndone after {} steps [^\n]*, waiting for input {:.2f}% of the time{}\n", whole.steps,
                               100 * whole.input_wait_share, limit_text(whole.input_wait_share, stage))));
  EXPECT_EQ(told.log.back().at("event"), "end");
  EXPECT_EQ(told.log.back().at("limiting_stage"), stage);
  EXPECT_EQ(told.log.back().at("input_wait_share"), whole.input_wait_share);
}

TEST(PipelineSource, ASlowMapRaisesTheShareOfWaitingAndIsNamedOnTheScreenInTheLogAndInTheSummary) {
  // Batches come a block at a time, so not every report has a wait.
  const Told slow = train_until(/*slow_map=*/true, [](double share, const TrainingReport& report) {
    return share > 0.5 && report.input_wait_share > 0.5 && report.limiting_stage == "2:map";
  });
  expect_one_story(slow);
  EXPECT_GT(slow.summary.whole.input_wait_share, 0.5);
  EXPECT_EQ(slow.named[slow.named.size() - 2], "2:map") << "at the last report";

  const Told fast = train_until(/*slow_map=*/false, [](double share, const TrainingReport& report) {
    return share < 0.3 && report.limiting_stage == "consumer";
  });
  expect_one_story(fast);
  EXPECT_LT(fast.summary.whole.input_wait_share, 0.3);
  EXPECT_EQ(fast.named[fast.named.size() - 2], "consumer") << "at the last report";
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
