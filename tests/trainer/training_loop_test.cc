// What the loop does around its steps: batch inputs, metrics, frozen parameters, loss scaling, prediction, and where
// the time goes.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/pipeline/dataset.h"
#include "millrace/trainer/callbacks/early_stopping.h"
#include "millrace/trainer/metrics/spearman.h"
#include "millrace/trainer/optimizers/sgd.h"
#include "millrace/trainer/pipeline_source.h"
#include "millrace/trainer/predictor.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/toy_training.h"

namespace millrace::training_loop_test {
namespace {

using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_models::Regression;
using testing_models::RegressionBatch;
using testing_models::RegressionSource;
using testing_models::thrown_by;
using testing_models::ToyTraining;

// Doubles the targets of every second batch, and writes down what it is told.
class Doubler final : public Callback {
 public:
  explicit Doubler(std::vector<std::string>& events) : events_(events) {}
  void batch_inputs(GlobalBatch& batch, int64_t number) override {
    events_.push_back(fmt::format("batch {}", number));
    if (number % 2 == 0) return;
    auto changed = std::make_shared<RegressionBatch>(batch.view.rows());
    const auto x = batch.view.feature("x").values<float>();
    const auto y = batch.view.feature("y").values<float>();
    changed->x.assign(x.begin(), x.end());
    changed->y.assign(y.begin(), y.end());
    for (float& target : changed->y) target *= 2;
    batch.view = changed->view();
    batch.owner = std::move(changed);
  }
  void step_ends(const StepEnd& end) override { events_.push_back(fmt::format("step {}", end.since_report.step)); }

 private:
  std::vector<std::string>& events_;
};

// The same batches, doubled by the source.
class DoubledSource final : public BatchSource {
 public:
  std::optional<GlobalBatch> next() override {
    std::optional<GlobalBatch> batch = source_.next();
    std::vector<std::string> unused;
    if (batch) Doubler(unused).batch_inputs(*batch, number_++);
    return batch;
  }

 private:
  RegressionSource source_{1000};
  int64_t number_ = 0;
};

TEST(TrainingLoop, ACallbackMayChangeTheInputsOfEachBatchBeforeItsStep) {
  std::vector<std::string> events;
  ToyTraining changed({.accumulate = 2, .total_steps = 3});
  changed.trainer.add_callback(std::make_unique<Doubler>(events));
  RegressionSource source(1000);
  changed.trainer.train(source);
  EXPECT_THAT(events, ElementsAre("batch 0", "batch 1", "step 1", "batch 2", "batch 3", "step 2", "batch 4", "batch 5",
                                  "step 3"));
  ToyTraining expected({.accumulate = 2, .total_steps = 3});
  DoubledSource doubled;
  expected.trainer.train(doubled);
  EXPECT_EQ(changed.weights(), expected.weights());
  ToyTraining plain({.accumulate = 2, .total_steps = 3});
  RegressionSource again(1000);
  plain.trainer.train(again);
  EXPECT_NE(changed.weights(), plain.weights());
}

TrainerOptions with_metrics() {
  return {.total_steps = 4,
          .evaluation = [] { return std::make_unique<RegressionSource>(3); },
          .metrics = [] { return metrics_of(Spearman({.predictions = "prediction", .labels = "y"})); },
          .evaluate_every = 2};
}

TEST(TrainingLoop, EvaluatesMetricsOverAllRowsInOrderBesideTheExactLoss) {
  ToyTraining toy(with_metrics());
  RegressionSource source(1000);
  const TrainingSummary summary = toy.trainer.train(source);
  const EvaluationReport& report = summary.last_evaluation.value();

  Spearman slow({.predictions = "prediction", .labels = "y"});
  double sum_loss = 0;
  double rows = 0;
  RegressionSource again(3);
  const auto workspace = toy.model.make_workspace();
  while (const auto batch = again.next()) {
    const Predictions predictions = toy.model.predict(batch->view, toy.trainer.weights().data(), *workspace);
    slow.add(batch->view, predictions);
    sum_loss += predictions.result.sum_loss;
    rows += predictions.result.weight;
  }
  EXPECT_EQ(report.rows, static_cast<int64_t>(rows));
  EXPECT_NEAR(report.loss, sum_loss / rows, 1e-12 * report.loss);
  ASSERT_EQ(report.metrics.size(), 1U);
  EXPECT_EQ(report.metrics[0].name, "spearman");
  EXPECT_EQ(report.value("spearman"), slow.value());
  EXPECT_EQ(report.value("loss"), report.loss);
  EXPECT_THAT(thrown_by([&] { (void)report.value("auc"); }), HasSubstr("no metric 'auc'; there are: loss, spearman"));
}

TEST(TrainingLoop, RefusesRowsToEvaluateOnThatNeverEnd) {
  const Dataset numbers = Dataset::range(0, 5);
  for (const bool endless : {true, false}) {
    TrainerOptions options = with_metrics();
    options.metrics = nullptr;
    options.evaluation = [&] {
      return std::make_unique<PipelineSource>((endless ? numbers.repeat() : numbers.repeat().take(7)).batch(2).start());
    };
    ToyTraining toy(options);
    RegressionSource source(1000);
    const std::string expected = endless ? "the rows to evaluate on have no end" : "the batch has no feature 'x'";
    EXPECT_THAT(thrown_by([&] { toy.trainer.train(source); }), HasSubstr(expected));
    EXPECT_EQ(toy.trainer.step(), endless ? 0 : 2);
    EXPECT_THAT(thrown_by([&] { (void)toy.trainer.evaluate(*options.evaluation()); }), HasSubstr(expected));
    Predictor predictor(toy.model, toy.trainer.weights());
    EXPECT_THAT(thrown_by([&] { (void)predictor.evaluate(*options.evaluation()); }), HasSubstr(expected));
  }
}

TEST(TrainingLoop, EvaluatesOnRowsOfTheCallersWithoutAnyOfTheTraining) {
  TrainerOptions options = with_metrics();
  options.evaluation = nullptr;
  options.evaluate_every = 0;
  ToyTraining toy(options);
  RegressionSource source(1000);
  EXPECT_FALSE(toy.trainer.train(source).last_evaluation.has_value());
  RegressionSource rows(3);
  const EvaluationReport found = toy.trainer.evaluate(rows);
  EXPECT_EQ(found.step, 4);
  EXPECT_GT(found.value("spearman"), -1);
  Predictor predictor(toy.model, toy.trainer.weights());
  RegressionSource again(3);
  const EvaluationReport same =
      predictor.evaluate(again, metrics_of(Spearman({.predictions = "prediction", .labels = "y"})));
  EXPECT_EQ(same.loss, found.loss);
  EXPECT_EQ(same.rows, found.rows);
  EXPECT_EQ(same.value("spearman"), found.value("spearman"));
  RegressionSource without_metrics(3);
  EXPECT_EQ(predictor.evaluate(without_metrics).loss, found.loss);
}

TEST(TrainingLoop, RefusesTwoNumbersOfAnEvaluationWithOneName) {
  class Named final : public Metric {
   public:
    explicit Named(std::string name) : name_(std::move(name)) {}
    std::string name() const override { return name_; }
    void add(const BatchView&, const Predictions&) override {}
    double value() const override { return 0; }

   private:
    std::string name_;
  };
  const auto options = [](const std::vector<std::string>& names) {
    return TrainerOptions{.total_steps = 1,
                          .evaluation = [] { return std::make_unique<RegressionSource>(3); },
                          .metrics =
                              [names] {
                                std::vector<std::unique_ptr<Metric>> metrics;
                                for (const std::string& name : names) metrics.push_back(std::make_unique<Named>(name));
                                return metrics;
                              }};
  };
  EXPECT_THAT(thrown_by([&] {
                ToyTraining toy(options({"auc", "f1", "auc"}));
              }),
              HasSubstr("two numbers with the name 'auc'"));
  EXPECT_THAT(thrown_by([&] { ToyTraining toy(options({"loss"})); }), HasSubstr("two numbers with the name 'loss'"));
  EXPECT_EQ(thrown_by([&] { ToyTraining toy(options({"auc", "f1"})); }), "nothing thrown");
}

TEST(TrainingLoop, AnEvaluationWithoutRowsHasNoLossAndKeepsNoModel) {
  const TemporaryFolder folder;
  int evaluations = 0;  // one is started with the training
  ToyTraining toy({.total_steps = 4,
                   .evaluation = [&] { return std::make_unique<RegressionSource>(evaluations++ <= 1 ? 0 : 3); },
                   .evaluate_every = 2,
                   .keep_best = KeepBest{.folder = folder.path("best")}});
  std::vector<EvaluationReport> reports;
  class Evaluations final : public Callback {
   public:
    explicit Evaluations(std::vector<EvaluationReport>& all) : reports_(all) {}
    void evaluation_ends(const EvaluationReport& report) override { reports_.push_back(report); }

   private:
    std::vector<EvaluationReport>& reports_;
  };
  toy.trainer.add_callback(std::make_unique<Evaluations>(reports));
  RegressionSource source(1000);
  const TrainingSummary summary = toy.trainer.train(source);
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].rows, 0);
  EXPECT_TRUE(std::isnan(reports[0].loss));
  EXPECT_TRUE(std::isfinite(reports[1].loss));
  ASSERT_EQ(summary.best_models.size(), 1U);
  EXPECT_EQ(summary.best_models[0].step, 4);
}

class Reports final : public Callback {
 public:
  explicit Reports(std::vector<TrainingReport>& reports) : reports_(reports) {}
  void report(const TrainingReport& report) override { reports_.push_back(report); }

 private:
  std::vector<TrainingReport>& reports_;
};

TEST(TrainingLoop, AReportOfSkippedStepsAloneHasNoLoss) {
  ToyTraining toy({.total_steps = 6, .report_every = 2});
  std::vector<TrainingReport> reports;
  toy.trainer.add_callback(std::make_unique<Reports>(reports));
  RegressionSource source(1000);
  source.spoilt_from = 2;
  source.spoilt_to = 4;
  toy.trainer.train(source);
  ASSERT_EQ(reports.size(), 4U);  // after steps 1, 2, 4 and 6
  EXPECT_TRUE(std::isfinite(reports[1].loss));
  EXPECT_TRUE(std::isnan(reports[2].loss));
  EXPECT_TRUE(std::isfinite(reports[3].loss));
}

TEST(TrainingLoop, TheFurtherLossesOfAModelAreReported) {
  ToyTraining toy({.total_steps = 3, .report_every = 3});
  toy.model.add_metrics = [](const ReplicaContext&, StepResult& result) {
    result.more_losses = {{.sum = 3 * result.weight, .weight = 2 * result.weight}, {}};
  };
  std::vector<TrainingReport> reports;
  toy.trainer.add_callback(std::make_unique<Reports>(reports));
  RegressionSource source(1000);
  toy.trainer.train(source);
  ASSERT_EQ(reports.size(), 2U);
  ASSERT_EQ(reports[1].metrics.size(), 2U);
  EXPECT_EQ(reports[1].metrics[0].name, "loss_1");
  EXPECT_NEAR(reports[1].metrics[0].value, 1.5, 1e-12);
  EXPECT_EQ(reports[1].metrics[1].name, "loss_2");
  EXPECT_TRUE(std::isnan(reports[1].metrics[1].value));
}

// Ends with an error instead of its second batch, once.
class FailingSource final : public BatchSource {
 public:
  std::optional<GlobalBatch> next() override {
    if (++asked_ == 2) throw ErrorException(ErrorCode::kIo, "gone");
    return source_.next();
  }

 private:
  RegressionSource source_{1000};
  int asked_ = 0;
};

TEST(TrainingLoop, ASecondTrainingOfATrainerTakesNoCallbackBack) {
  class Counter final : public Callback {
   public:
    explicit Counter(std::vector<std::string>& restored) : restored_(restored) {}
    void step_ends(const StepEnd&) override { ++steps_; }
    std::string state_name() const override { return "counter"; }
    std::string save_state() const override { return std::to_string(steps_); }
    void restore_state(const std::string& state) override { restored_.push_back(state); }

   private:
    std::vector<std::string>& restored_;
    int steps_ = 0;
  };
  const TemporaryFolder folder;
  const TrainerOptions options{.total_steps = 3, .checkpoint_folder = folder.path(), .checkpoint_every = 1};
  ToyTraining toy(options);
  std::vector<std::string> restored;
  toy.trainer.add_callback(std::make_unique<Counter>(restored));
  FailingSource source;
  EXPECT_THAT(thrown_by([&] { toy.trainer.train(source); }), HasSubstr("gone"));
  const std::string checkpoint = toy.trainer.train(source).last_checkpoint;
  EXPECT_THAT(restored, testing::IsEmpty());
  toy.trainer.resume(checkpoint);
  toy.trainer.train(source);
  EXPECT_THAT(restored, ElementsAre("3"));
}

TEST(TrainingLoop, AsksASourceForItsStateOnlyWhereCheckpointsAreWritten) {
  class Stateless final : public BatchSource {
   public:
    std::optional<GlobalBatch> next() override { return source_.next(); }
    std::optional<PipelineState> save() const override { throw ErrorException(ErrorCode::kState, "no state"); }

   private:
    RegressionSource source_{3};
  };
  const TemporaryFolder folder;
  Stateless source;
  ToyTraining without({});
  EXPECT_EQ(without.trainer.train(source).step, 3);
  ToyTraining with({.checkpoint_folder = folder.path()});
  EXPECT_THAT(thrown_by([&] { with.trainer.train(source); }), HasSubstr("no state"));
}

TEST(TrainingLoop, KeepsTheBestModelsByAMetricOfTheEvaluations) {
  const TemporaryFolder folder;
  TrainerOptions options = with_metrics();
  options.total_steps = 12;
  options.keep_best = {.folder = folder.path("best"),
                       .models = {.keep = 2, .metric = "spearman", .better = Better::kHigher}};
  ToyTraining toy(options);
  RegressionSource source(1000);
  const TrainingSummary summary = toy.trainer.train(source);
  ASSERT_EQ(summary.best_models.size(), 2U);
  EXPECT_GE(summary.best_models[0].value, summary.best_models[1].value);
  EXPECT_LE(summary.best_models[0].value, 1);
  options.keep_best->models.metric = "auc";
  options.keep_best->folder = folder.path("other");
  ToyTraining other(options);
  RegressionSource again(1000);
  EXPECT_THAT(thrown_by([&] { other.trainer.train(again); }), HasSubstr("no metric 'auc'"));
  EXPECT_EQ(other.trainer.step(), 0) << "refused before the first step";
}

TEST(TrainingLoop, RefusesToStopEarlyByAMetricThatNoEvaluationHas) {
  for (const auto& [metric, steps] : std::vector<std::pair<std::string, int64_t>>{{"spearman", 12}, {"spaerman", 0}}) {
    TrainerOptions options = with_metrics();
    options.total_steps = 12;
    ToyTraining toy(options);
    toy.trainer.add_callback(std::make_unique<EarlyStopping>(
        EarlyStoppingOptions{.metric = metric, .better = Better::kHigher, .patience = 99}));
    RegressionSource source(1000);
    const std::string thrown = thrown_by([&] { toy.trainer.train(source); });
    EXPECT_EQ(toy.trainer.step(), steps);
    if (steps == 0) {
      EXPECT_THAT(thrown, HasSubstr("no metric 'spaerman'; there are: loss, "));
    }
  }
}

TEST(TrainingLoop, RefusesToStopEarlyWhereNothingIsEvaluated) {
  ToyTraining toy({.total_steps = 3});
  toy.trainer.add_callback(std::make_unique<EarlyStopping>());
  RegressionSource source(1000);
  EXPECT_THAT(thrown_by([&] { toy.trainer.train(source); }), HasSubstr("there is nothing to evaluate on"));
  EXPECT_EQ(toy.trainer.step(), 0);
}

TEST(TrainingLoop, AnEvaluationThatFailsCostsNoStep) {
  const TemporaryFolder folder;
  bool fails = false;
  const auto options_in = [&](const std::string& name) {
    TrainerOptions options = with_metrics();
    options.total_steps = 0;
    options.evaluate_every = 0;
    options.evaluation = [&fails]() -> std::unique_ptr<BatchSource> {
      if (std::exchange(fails, false)) throw ErrorException(ErrorCode::kIo, "the evaluation's files are gone");
      return std::make_unique<RegressionSource>(3);
    };
    options.checkpoint_folder = folder.path(name);
    return options;
  };
  constexpr int64_t kBatches = 10;
  constexpr int64_t kPerEpoch = 5;
  ToyTraining whole(options_in("whole"));
  RegressionSource all(kBatches, 0, kPerEpoch);
  const TrainingSummary expected = whole.trainer.train(all);

  ToyTraining first(options_in("cut"));
  RegressionSource source(kBatches, 0, kPerEpoch);
  class FailsAfterTheFirstStep final : public Callback {
   public:
    explicit FailsAfterTheFirstStep(bool& flag) : flag_(flag) {}
    void step_ends(const StepEnd& end) override { flag_ = flag_ || end.since_report.step == 1; }

   private:
    bool& flag_;
  };
  first.trainer.add_callback(std::make_unique<FailsAfterTheFirstStep>(fails));
  EXPECT_THAT(thrown_by([&] { first.trainer.train(source); }), HasSubstr("files are gone"));
  EXPECT_EQ(first.trainer.step(), kPerEpoch);
  const std::vector<std::string> checkpoints = CheckpointFolder(folder.path("cut"), {}).paths();
  ASSERT_EQ(checkpoints.size(), 1U);
  ToyTraining second(options_in("cut"));
  second.trainer.resume(checkpoints[0]);
  EXPECT_EQ(second.trainer.step(), kPerEpoch);
  int num_evaluations = 0;
  class Count final : public Callback {
   public:
    explicit Count(int& count) : count_(count) {}
    void evaluation_ends(const EvaluationReport&) override { ++count_; }

   private:
    int& count_;
  };
  second.trainer.add_callback(std::make_unique<Count>(num_evaluations));
  RegressionSource rest(kBatches, second.trainer.micro_batches(), kPerEpoch);
  const TrainingSummary found = second.trainer.train(rest);
  EXPECT_EQ(num_evaluations, 2) << "that of the first epoch too";
  EXPECT_EQ(second.weights(), whole.weights());
  EXPECT_EQ(found.last_evaluation->loss, expected.last_evaluation->loss);
}

TEST(TrainingLoop, ASourceThatStandsElsewhereThanTheCheckpointIsRefused) {
  // Batches that a pipeline counts.
  class Placed final : public BatchSource {
   public:
    Placed(Pipeline pipeline, int64_t first) : pipeline_(std::move(pipeline)), batches_(20, first) {}
    std::optional<GlobalBatch> next() override {
      (void)pipeline_.next();
      return batches_.next();
    }
    std::optional<PipelineState> save() const override { return pipeline_.save(); }

   private:
    Pipeline pipeline_;
    RegressionSource batches_;
  };
  const TemporaryFolder folder;
  const Dataset places = Dataset::range(0, 20);
  const TrainerOptions options{.total_steps = 7, .checkpoint_folder = folder.path("checkpoints")};
  ToyTraining first(options);
  Placed source(places.start({.threads = 1}), 0);
  const std::string checkpoint = first.trainer.train(source).last_checkpoint;
  TrainerOptions more = options;
  more.total_steps = 9;
  for (const bool right : {true, false}) {
    ToyTraining second(more);
    second.trainer.resume(checkpoint);
    Placed rest(places.start({.threads = 2, .state = right ? second.trainer.source_state() : std::nullopt}), 7);
    const std::string thrown = thrown_by([&] { second.trainer.train(rest); });
    EXPECT_EQ(second.trainer.step(), right ? 9 : 7) << thrown;
    if (!right) {
      EXPECT_THAT(thrown, HasSubstr("state: the source does not stand where the checkpoint "));
      EXPECT_EQ(thrown_by([&] { second.trainer.train(rest); }), thrown) << "also the second time";
    }
  }
}

TEST(TrainingLoop, ACheckpointThatLostItsPlaceInTheDataIsRefused) {
  const TemporaryFolder folder;
  const Dataset rows = Dataset::rows(
      {{"x", std::vector<std::vector<float>>(9, std::vector<float>(5, 1))}, {"y", std::vector<float>(9, 2)}});
  const TrainerOptions options{.total_steps = 2, .checkpoint_folder = folder.path("checkpoints")};
  ToyTraining first(options);
  PipelineSource source(rows.batch(3).start({.threads = 1}));
  const std::string checkpoint = first.trainer.train(source).last_checkpoint;
  std::filesystem::remove(checkpoint + "/source.state");
  ToyTraining second(options);
  EXPECT_EQ(thrown_by([&] { second.trainer.resume(checkpoint); }),
            fmt::format("state: the checkpoint {} has lost its source.state, the place in the data; take a whole one",
                        checkpoint));
  EXPECT_EQ(second.trainer.step(), 0);
  // Of an earlier version, which does not say whether there was one.
  const std::string file = checkpoint + "/training.json";
  std::string text = test::read_file(file);
  const std::string note = ",\n \"source_state\": true";
  ASSERT_NE(text.find(note), std::string::npos) << text;
  text.erase(text.find(note), note.size());
  test::write_file(file, text);
  second.trainer.resume(checkpoint);
  EXPECT_EQ(second.trainer.step(), 2);
  EXPECT_FALSE(second.trainer.source_state().has_value());
}

TEST(TrainingLoop, PredictsExactlyTheRowsOfASourceInOrder) {
  ToyTraining toy({});
  for (const int64_t batches : {0, 1, 7}) {
    RegressionSource source(batches);
    std::vector<float> found;
    int64_t calls = 0;
    toy.trainer.predict(source, [&](const GlobalBatch& batch, const Predictions& predictions) {
      EXPECT_EQ(predictions.rows, batch.view.rows());
      const auto values = predictions.values<float>("prediction");
      found.insert(found.end(), values.begin(), values.end());
      ++calls;
    });
    EXPECT_EQ(calls, batches);
    std::vector<float> expected;
    RegressionSource again(batches);
    const auto workspace = toy.model.make_workspace();
    while (const auto batch = again.next()) {
      const Predictions predictions = toy.model.predict(batch->view, toy.trainer.weights().data(), *workspace);
      const auto values = predictions.values<float>("prediction");
      expected.insert(expected.end(), values.begin(), values.end());
    }
    EXPECT_EQ(found, expected);
  }
}

TEST(TrainingLoop, AFrozenPartStaysAndACheckpointOfAnotherIsRefused) {
  const TemporaryFolder folder;
  const TrainerOptions options{.frozen = "^first", .total_steps = 5, .checkpoint_folder = folder.path()};
  ToyTraining toy(options);
  class Trained final : public Callback {
    void train_starts(const TrainingStart& start) override {
      EXPECT_EQ(start.num_parameters, 5 * 7 + 7 + 7 + 1);
      EXPECT_EQ(start.num_trained, 7 + 1);
    }
  };
  toy.trainer.add_callback(std::make_unique<Trained>());
  const std::vector<float> before = toy.weights();
  RegressionSource source(1000);
  const std::string checkpoint = toy.trainer.train(source).last_checkpoint;
  for (size_t id = 0; id < 4; ++id) {
    const Parameter& parameter = toy.model.layout().parameters()[id];
    const auto first = static_cast<size_t>(parameter.offset);
    EXPECT_EQ(toy.weights()[first] == before[first], id < 2) << parameter.name;
  }
  ToyTraining same(options);
  same.trainer.resume(checkpoint);
  EXPECT_EQ(same.weights(), toy.weights());
  ToyTraining whole({.total_steps = 5});
  EXPECT_THAT(thrown_by([&] { whole.trainer.resume(checkpoint); }),
              HasSubstr("made with gradients global_mean, without '^first', this run has global_mean"));
  TrainerOptions rounded = options;
  rounded.step.activations = ActivationStorage::kBfloat16;
  ToyTraining other(rounded);
  EXPECT_THAT(thrown_by([&] { other.trainer.resume(checkpoint); }),
              HasSubstr("this run has global_mean, without '^first', activations in bfloat16"));
}

TEST(TrainingLoop, LossScalingHalvesTheScaleAfterAnOverflowAndGoesOn) {
  const TemporaryFolder folder;
  // Gradients of the toy model are a few units: times 2^126 they are infinite, times 2^100 they are not.
  const TrainerOptions options{
      .loss_scaling =
          LossScaling{.initial = std::pow(2.0, 126), .factor = std::pow(2.0, 13), .highest = std::pow(2.0, 126)},
      .total_steps = 8,
      .checkpoint_folder = folder.path("checkpoints"),
      .most_skipped_in_a_row = 0};
  ToyTraining scaled(options);
  RegressionSource source(1000);
  const TrainingSummary summary = scaled.trainer.train(source);
  EXPECT_GE(summary.whole.skipped_updates, 1);
  EXPECT_LT(summary.whole.skipped_updates, 8);
  const TrainingProgress progress = read_progress(summary.last_checkpoint);
  EXPECT_EQ(progress.loss_scale.scale, std::pow(2.0, 126 - 13 * static_cast<double>(summary.whole.skipped_updates)));
  EXPECT_EQ(progress.loss_scale.good_steps, 8 - summary.whole.skipped_updates);

  // The steps that were not skipped are those of a training without scaling.
  ToyTraining plain({.total_steps = 8 - summary.whole.skipped_updates});
  RegressionSource after(1000, summary.whole.skipped_updates);
  plain.trainer.train(after);
  EXPECT_EQ(scaled.weights(), plain.weights());
}

TEST(TrainingLoop, TheLossScaleRisesAfterManyGoodSteps) {
  const LossScaling scaling{.initial = 8, .factor = 2, .growth_interval = 3, .lowest = 4, .highest = 20};
  LossScale scale{.scale = 8};
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(scale.step_ends(scaling, true));
  EXPECT_EQ(scale.scale, 16);
  EXPECT_TRUE(scale.step_ends(scaling, false)) << "the scale is to blame";
  EXPECT_TRUE(scale.step_ends(scaling, false));
  EXPECT_EQ(scale.scale, 4);
  EXPECT_FALSE(scale.step_ends(scaling, false)) << "it cannot be lower";
  EXPECT_EQ(scale.scale, 4);
  for (int i = 0; i < 9; ++i) scale.step_ends(scaling, true);
  EXPECT_EQ(scale.scale, 20) << "the highest, and not twice 16";
  EXPECT_EQ(scale.good_steps, 0);
  scale.scale = std::pow(2.0, 23);
  const LossScaling defaults{.growth_interval = 1};
  for (int i = 0; i < 200; ++i) scale.step_ends(defaults, true);
  EXPECT_EQ(scale.scale, std::pow(2.0, 24));
  for (const double highest : {8.0, std::numeric_limits<double>::infinity(), 1e39}) {
    EXPECT_THAT(thrown_by([&] { ToyTraining({.loss_scaling = LossScaling{.initial = 16, .highest = highest}}); }),
                HasSubstr("0 < lowest <= initial <= highest"));
  }
  EXPECT_THAT(thrown_by([] { ToyTraining({.loss_scaling = LossScaling{.factor = 1}}); }), HasSubstr("factor > 1"));
}

// A callback that takes its time.
class Slow final : public Callback {
 public:
  void step_ends(const StepEnd&) override { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }
};

class Times final : public Callback {
 public:
  Times(std::vector<TrainingReport>& reports, std::vector<StepEnd>& steps) : reports_(reports), steps_(steps) {}
  void step_ends(const StepEnd& end) override { steps_.push_back(end); }
  void report(const TrainingReport& report) override { reports_.push_back(report); }

 private:
  std::vector<TrainingReport>& reports_;
  std::vector<StepEnd>& steps_;
};

TEST(TrainingLoop, SaysWhereTheTimeWent) {
  // Eight replicas sleep, on at most as many threads: for each batch the phase takes longer than one sleep.
  const auto sleep = [](const ReplicaContext&) { std::this_thread::sleep_for(std::chrono::milliseconds(3)); };
  constexpr double kSlept = 5 * 3 * 0.003;  // three batches a step
  std::vector<TrainingReport> reports;
  std::vector<StepEnd> steps;
  const TrainerOptions options{.accumulate = 3, .total_steps = 5, .report_every = 5};
  ToyTraining toy(options);
  toy.model.before_step = sleep;
  toy.trainer.add_callback(std::make_unique<Slow>());
  toy.trainer.add_callback(std::make_unique<Times>(reports, steps));
  RegressionSource source(1000);
  const TrainingSummary summary = toy.trainer.train(source);
  const StepPhases& whole = summary.whole.phases;
  EXPECT_GT(whole.forward, kSlept);
  EXPECT_GT(whole.optimizer, 0);
  EXPECT_GT(whole.reduce, 0);
  const double inside = whole.forward + whole.backward + whole.reduce + whole.optimizer;
  EXPECT_LE(inside, summary.whole.seconds);
  EXPECT_GE(summary.whole.callback_seconds, 5 * 0.02);
  ASSERT_EQ(reports.size(), 2U);
  // The steps' events are told before the report of the same step.
  EXPECT_GE(reports[0].callback_seconds, 0.02);
  EXPECT_GE(reports[1].callback_seconds, 4 * 0.02);
  ASSERT_EQ(steps.size(), 5U);
  for (const StepEnd& step : steps) {
    EXPECT_EQ(step.waits.size(), 3U);
    EXPECT_GE(step.events.size(), 3U);  // the inputs of three batches
  }

  ToyTraining other(options);
  other.model.before_last_gradients = sleep;
  RegressionSource again(1000);
  const TrainingReport of_backward = other.trainer.train(again).whole;
  EXPECT_GT(of_backward.phases.backward, kSlept);
  EXPECT_LE(of_backward.phases.forward + of_backward.phases.backward, of_backward.seconds);
}

}  // namespace
}  // namespace millrace::training_loop_test
