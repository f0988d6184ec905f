#include "millrace/trainer/trainer.h"

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <oneapi/tbb/global_control.h>

#include "millrace/trainer/checkpoint/parameter_file.h"
#include "millrace/trainer/optimizers/sgd.h"
#include "tests/support/gathering.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/toy_training.h"
#include "tests/trainer/training_files.h"

namespace millrace::trainer_test {
namespace {

using test::files_below;
using test::Gathering;
using test::read_file;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing_models::Regression;
using testing_models::RegressionBatch;
using testing_models::RegressionSource;
using testing_models::thrown_by;
using testing_models::ToyTraining;
using testing_models::training_files;
using testing_models::trainings_in;

// Writes down what it is told.
class Diary final : public Callback {
 public:
  explicit Diary(std::vector<std::string>& events, std::string name = "") : events_(events), name_(std::move(name)) {}
  void train_starts(const TrainingStart& start) override { note(fmt::format("start at {}", start.step)); }
  void step_ends(const StepEnd& end) override { note(fmt::format("step {}", end.since_report.step)); }
  void report(const TrainingReport& report) override {
    note(fmt::format("report {} of {}", report.step, report.steps));
  }
  void evaluation_ends(const EvaluationReport& report) override { note(fmt::format("evaluation at {}", report.step)); }
  void epoch_ends(const EpochEnd& end) override { note(fmt::format("epoch {} ends at {}", end.epoch, end.step)); }
  void model_kept(const ModelKept& kept) override {
    note(fmt::format("kept {} as {} {} of {}", kept.model.step, kept.metric, kept.model.value, kept.best.size()));
  }
  void checkpoint_written(const std::string& path) override { note(std::filesystem::path(path).filename().string()); }
  void train_ends(const TrainingSummary& summary) override { note(fmt::format("end at {}", summary.step)); }

 private:
  void note(const std::string& event) { events_.push_back(name_ + event); }
  std::vector<std::string>& events_;
  std::string name_;
};

// Keeps what it is told.
struct Record {
  std::vector<double> losses;                 // of each step
  std::map<int64_t, double> reported_losses;  // by step
  std::vector<TrainingReport> reports;
  std::vector<EvaluationReport> evaluations;
};

class Recorder final : public Callback {
 public:
  explicit Recorder(Record& record) : record_(record) {}
  void step_ends(const StepEnd& end) override { record_.losses.push_back(end.step.loss); }
  void report(const TrainingReport& report) override {
    record_.reports.push_back(report);
    record_.reported_losses[report.step] = report.loss;
  }
  void evaluation_ends(const EvaluationReport& report) override { record_.evaluations.push_back(report); }

 private:
  Record& record_;
};

// Ends a training after a number of steps of this run.
class StopAfter final : public Callback {
 public:
  explicit StopAfter(int64_t steps) : left_(std::make_shared<int64_t>(steps)) {}
  void step_ends(const StepEnd&) override { --*left_; }
  std::function<bool()> asked() const {
    return [left = left_] { return *left <= 0; };
  }

 private:
  std::shared_ptr<int64_t> left_;
};

TEST(Trainer, LearnsALinearRelation) {
  ToyTraining toy({.step = {.threads = 2}, .total_steps = 300}, 300);
  Record record;
  toy.trainer.add_callback(std::make_unique<Recorder>(record));
  RegressionSource source(1000);
  const TrainingSummary summary = toy.trainer.train(source);
  EXPECT_EQ(summary.step, 300);
  EXPECT_EQ(toy.trainer.step(), 300);
  EXPECT_FALSE(summary.stopped);
  EXPECT_EQ(summary.first_loss, record.losses.front());
  EXPECT_GT(summary.first_loss, 1);
  EXPECT_LT(record.losses.back(), 0.01 * *summary.first_loss);
}

TEST(Trainer, TakesTheMeanLossOfAReportOverAllItsWeight) {
  ToyTraining toy({.total_steps = 8, .report_every = 4, .token_features = {"x", "y"}});
  Record record;
  toy.trainer.add_callback(std::make_unique<Recorder>(record));
  RegressionSource source(100);
  toy.trainer.train(source);
  ASSERT_EQ(record.reports.size(), 3U);
  // Batches 0, 1, 2, 3, ... have 16, 15, 14, 16, ... rows: a mean over steps would be another number.
  double sum_loss = 0;
  double weight = 0;
  for (int64_t step = 1; step < 4; ++step) {
    const auto rows = static_cast<double>(16 - step % 3);
    sum_loss += record.losses[static_cast<size_t>(step)] * rows;
    weight += rows;
  }
  const TrainingReport& second = record.reports[1];
  EXPECT_NEAR(second.loss, sum_loss / weight, 1e-12 * second.loss);
  EXPECT_EQ(second.step, 4);
  EXPECT_EQ(second.steps, 3);
  EXPECT_EQ(second.rows, 45);
  EXPECT_EQ(second.tokens, 270);
  EXPECT_GT(second.tokens_per_s, 5.9 * second.rows_per_s);
  EXPECT_EQ(second.limiting_stage, "2:map");
  EXPECT_GT(second.after_backward_share, 0);
  EXPECT_LT(second.after_backward_share, 1);
  // The schedule's fourth value: the warm-up of three steps is over.
  EXPECT_EQ(second.learning_rate, 0.02);
}

TEST(Trainer, EvaluatesAllRowsWithTheirExactWeights) {
  ToyTraining toy({.total_steps = 5, .evaluation = [] { return std::make_unique<RegressionSource>(7, 3); }});
  Record record;
  toy.trainer.add_callback(std::make_unique<Recorder>(record));
  RegressionSource source(100);
  toy.trainer.train(source);
  ASSERT_EQ(record.evaluations.size(), 1U);
  const EvaluationReport& report = record.evaluations[0];
  EXPECT_EQ(report.step, 5);
  EXPECT_EQ(report.rows, 16 + 15 + 14 + 16);
  EXPECT_EQ(report.weight, 61);
  // The model itself, row by row.
  double sum_loss = 0;
  const std::unique_ptr<Workspace> workspace = toy.model.make_workspace();
  for (const int64_t number : {3, 4, 5, 6}) {
    const RegressionBatch batch(16 - number % 3, static_cast<uint64_t>(number));
    for (int64_t row = 0; row < batch.num_rows; ++row) {
      sum_loss += toy.model.evaluate(batch.view().slice(row, 1), toy.trainer.weights().data(), *workspace).sum_loss;
    }
  }
  EXPECT_NEAR(report.sum_loss, sum_loss, 1e-12 * sum_loss);
  EXPECT_EQ(report.loss, report.sum_loss / 61);
}

TEST(Trainer, TellsCallbacksInTheStatedOrder) {
  const TemporaryFolder folder;
  ToyTraining toy({.total_steps = 5,
                   .report_every = 2,
                   .evaluation = [] { return std::make_unique<RegressionSource>(2); },
                   .checkpoint_folder = folder.path()});
  std::vector<std::string> events;
  toy.trainer.add_callback(std::make_unique<Diary>(events));
  RegressionSource source(100, 0, 2);
  toy.trainer.train(source);
  EXPECT_THAT(events, ElementsAre("start at 0", "step 1", "report 1 of 1", "step 2", "report 2 of 1",  //
                                  "evaluation at 2", "epoch 0 ends at 2", "checkpoint-00000002",       //
                                  "step 3", "step 4", "report 4 of 2",                                 //
                                  "evaluation at 4", "epoch 1 ends at 4", "checkpoint-00000004",       //
                                  "step 5", "report 5 of 1",                                           //
                                  "evaluation at 5", "checkpoint-00000005", "end at 5"));
}

TEST(Trainer, TellsEachEventToAllCallbacksInTheOrderInWhichTheyWereAdded) {
  ToyTraining toy({.total_steps = 1});
  std::vector<std::string> events;
  toy.trainer.add_callback(std::make_unique<Diary>(events, "a: "));
  toy.trainer.add_callback(std::make_unique<Diary>(events, "b: "));
  RegressionSource source(100);
  toy.trainer.train(source);
  EXPECT_THAT(events, ElementsAre("a: start at 0", "b: start at 0", "a: step 1", "b: step 1", "a: report 1 of 1",
                                  "b: report 1 of 1", "a: end at 1", "b: end at 1"));
}

TEST(Trainer, EndsWithTheDataWhenTheyAreFewerThanTheSteps) {
  const TemporaryFolder folder;
  for (const int64_t total_steps : {0, 50}) {
    ToyTraining toy({.total_steps = total_steps,
                     .report_every = 4,
                     .evaluation = [] { return std::make_unique<RegressionSource>(2); },
                     .checkpoint_folder = folder.path(std::to_string(total_steps))});
    std::vector<std::string> events;
    toy.trainer.add_callback(std::make_unique<Diary>(events));
    Record record;
    toy.trainer.add_callback(std::make_unique<Recorder>(record));
    RegressionSource source(5, 0, 3);
    const TrainingSummary summary = toy.trainer.train(source);
    EXPECT_EQ(summary.step, 5);
    EXPECT_FALSE(summary.stopped);
    EXPECT_TRUE(summary.data_ended);
    EXPECT_EQ(summary.last_checkpoint, folder.path(fmt::format("{}/checkpoint-00000005", total_steps)));
    EXPECT_THAT(events, ElementsAre("start at 0", "step 1", "report 1 of 1", "step 2", "step 3",    //
                                    "evaluation at 3", "epoch 0 ends at 3", "checkpoint-00000003",  //
                                    "step 4", "report 4 of 3", "step 5", "report 5 of 1",           //
                                    "evaluation at 5", "epoch 1 ends at 5", "checkpoint-00000005",  //
                                    "end at 5"));
    EXPECT_EQ(record.reports.back().epoch, 1);
    EXPECT_EQ(summary.whole.epoch, 1);
    EXPECT_EQ(summary.whole.steps, 5);
    EXPECT_EQ(summary.whole.rows, 16 + 15 + 14 + 16 + 15);
  }
}

TEST(Trainer, EvaluatesAndSavesEveryNStepsWhenAsked) {
  const TemporaryFolder folder;
  ToyTraining toy({.total_steps = 7,
                   .report_every = 100,
                   .evaluation = [] { return std::make_unique<RegressionSource>(2); },
                   .evaluate_every = 2,
                   .checkpoint_folder = folder.path(),
                   .checkpoint_every = 3});
  std::vector<std::string> events;
  toy.trainer.add_callback(std::make_unique<Diary>(events));
  RegressionSource source(100, 0, 5);  // an epoch's end is told, but evaluates and saves nothing then
  toy.trainer.train(source);
  EXPECT_THAT(events, ElementsAre("start at 0", "step 1", "report 1 of 1", "step 2", "evaluation at 2", "step 3",
                                  "checkpoint-00000003", "step 4", "evaluation at 4", "step 5", "epoch 0 ends at 5",
                                  "step 6", "evaluation at 6", "checkpoint-00000006", "step 7", "report 7 of 6",
                                  "evaluation at 7", "checkpoint-00000007", "end at 7"));
}

TEST(Trainer, SkippedUpdatesAreCountedAndNamed) {
  ToyTraining toy({.total_steps = 8, .report_every = 4, .most_skipped_in_a_row = 2});
  Record record;
  toy.trainer.add_callback(std::make_unique<Recorder>(record));
  RegressionSource source(100);
  source.spoilt_from = 4;
  source.spoilt_to = 6;
  const TrainingSummary summary = toy.trainer.train(source);
  EXPECT_EQ(summary.step, 8);
  EXPECT_EQ(summary.whole.skipped_updates, 2);
  EXPECT_EQ(summary.whole.last_skip,
            "step 6 (batch 5): the loss of replica 1 is nan (weight 2); the update was skipped");
  EXPECT_TRUE(std::isnan(record.losses[5]));
  EXPECT_TRUE(std::isfinite(record.reports.back().loss)) << "skipped steps are not in the loss of a report";
  EXPECT_EQ(record.reports[1].last_skip, "");
  for (const float weight : toy.weights()) EXPECT_TRUE(std::isfinite(weight));
}

TEST(Trainer, TooManySkippedUpdatesInARowEndTheTrainingAndNameTheBatch) {
  ToyTraining toy({.total_steps = 50, .most_skipped_in_a_row = 2});
  RegressionSource source(100);
  source.spoilt_from = 7;
  source.spoilt_to = 100;
  EXPECT_EQ(thrown_by([&] { toy.trainer.train(source); }),
            "not_finite: 3 updates in a row were not finite, the last: step 10 (batch 9): the loss of replica 1 is nan "
            "(weight 2); the update was skipped");
  EXPECT_EQ(toy.trainer.step(), 10);
  for (const float weight : toy.weights()) EXPECT_TRUE(std::isfinite(weight));
}

TEST(Trainer, AnInfiniteLossIsSkippedToo) {
  ToyTraining toy({.total_steps = 3, .most_skipped_in_a_row = 0});
  RegressionSource source(100);
  source.spoilt_from = 1;
  source.spoilt_to = 2;
  source.spoilt_with = std::numeric_limits<float>::infinity();
  EXPECT_EQ(thrown_by([&] { toy.trainer.train(source); }),
            "not_finite: 1 updates in a row were not finite, the last: step 2 (batch 1): the loss of replica 1 is inf "
            "(weight 2); the update was skipped");
}

TEST(Trainer, WeightsThatAreNotFiniteNeverReachACheckpoint) {
  const TemporaryFolder folder;
  Regression model;
  // A rate at which the third update overflows, of finite gradients.
  class Leap final : public Schedule {
   public:
    double learning_rate(int64_t updates) const override { return updates < 2 ? 1e-3 : 1e39; }
    std::string describe() const override { return "leap"; }
  };
  Trainer trainer(model, std::make_unique<Sgd>(), std::make_unique<Leap>(),
                  {.total_steps = 50, .checkpoint_folder = folder.path(), .checkpoint_every = 1});
  RegressionSource source(100);
  EXPECT_EQ(thrown_by([&] { trainer.train(source); }),
            fmt::format("not_finite: after step 3 the weights of 'first.weight' are not finite; no checkpoint was "
                        "written, the last one is {}",
                        folder.path("checkpoint-00000002")));
  for (const std::string& path : CheckpointFolder(folder.path(), {}).paths()) {
    trainer.resume(path);
    for (const float weight : trainer.weights()) EXPECT_TRUE(std::isfinite(weight)) << path;
  }
  EXPECT_EQ(trainer.step(), 2);
}

TEST(Trainer, SkippedUpdatesInARowAreCountedAcrossACheckpoint) {
  const TemporaryFolder folder;
  const TrainerOptions options = {.total_steps = 50, .checkpoint_folder = folder.path(), .most_skipped_in_a_row = 2};
  RegressionSource source(8);
  source.spoilt_from = 6;
  source.spoilt_to = 100;
  ToyTraining first(options);
  const TrainingSummary summary = first.trainer.train(source);
  ToyTraining second(options);
  second.trainer.resume(summary.last_checkpoint);
  RegressionSource rest(100, 8);
  rest.spoilt_from = 6;
  rest.spoilt_to = 100;
  EXPECT_THAT(thrown_by([&] { second.trainer.train(rest); }),
              testing::StartsWith("not_finite: 3 updates in a row were not finite, the last: step 9 (batch 8): "));
}

TEST(Trainer, GivesTheSameWeightsBitForBitForAnyNumberOfThreads) {
  std::vector<float> expected;
  for (const int threads : {1, 2, 4, 8}) {
    const oneapi::tbb::global_control limit(oneapi::tbb::global_control::max_allowed_parallelism,
                                            static_cast<size_t>(threads));
    ToyTraining toy({.step = {.threads = threads, .seed = 5}, .total_steps = 60});
    Gathering gathering(threads);
    toy.model.before_step = [&](const ReplicaContext&) { gathering.pass(); };
    RegressionSource source(100);
    const TrainingSummary summary = toy.trainer.train(source);
    EXPECT_GE(summary.threads, threads);  // a thread may go and another come in its place
    EXPECT_EQ(gathering.most(), threads) << "at once";
    if (threads == 1) {
      EXPECT_EQ(summary.threads, 1) << "the caller's";
      expected = toy.weights();
    }
    const std::vector<float> found = toy.weights();
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0) << threads << " threads";
  }
}

TEST(Trainer, CutInTwoByACheckpointItIsTheSameTraining) {
  const TemporaryFolder folder;
  const auto options = [&](const std::string& name, int threads) {
    return TrainerOptions{.step = {.threads = threads, .seed = 11},
                          .total_steps = 40,
                          .report_every = 5,
                          .evaluation = [] { return std::make_unique<RegressionSource>(3); },
                          .checkpoint_folder = folder.path(name),
                          .checkpoints = {.keep_last = 100}};
  };
  constexpr int64_t kPerEpoch = 9;
  ToyTraining straight(options("straight", 2));
  Record straight_record;
  std::vector<std::string> straight_events;
  straight.trainer.add_callback(std::make_unique<Recorder>(straight_record));
  straight.trainer.add_callback(std::make_unique<Diary>(straight_events));
  RegressionSource source(1000, 0, kPerEpoch);
  const TrainingSummary straight_summary = straight.trainer.train(source);

  // In the middle of a report and of an epoch; where an epoch ends; where a report ends; after one step; at the end.
  for (const int64_t cut : {12, 18, 20, 1, 40}) {
    const std::string name = std::to_string(cut);
    Record record;
    ToyTraining first(options(name, 1));
    first.trainer.add_callback(std::make_unique<Recorder>(record));
    auto stop = std::make_unique<StopAfter>(cut);
    const auto asked = stop->asked();
    first.trainer.add_callback(std::move(stop));
    RegressionSource head(1000, 0, kPerEpoch);
    const TrainingSummary stopped = first.trainer.train(head, asked);
    EXPECT_TRUE(stopped.stopped);
    EXPECT_EQ(stopped.step, cut);
    EXPECT_EQ(stopped.last_checkpoint, folder.path(fmt::format("{}/checkpoint-{:08}", name, cut)));

    ToyTraining second(options(name, 4));
    std::vector<std::string> events;
    second.trainer.add_callback(std::make_unique<Recorder>(record));
    second.trainer.add_callback(std::make_unique<Diary>(events));
    second.trainer.resume(stopped.last_checkpoint);
    EXPECT_EQ(second.trainer.step(), cut);
    RegressionSource tail(1000, cut, kPerEpoch);
    const TrainingSummary summary = second.trainer.train(tail);

    EXPECT_EQ(second.weights(), straight.weights());
    EXPECT_EQ(training_files(summary.last_checkpoint), training_files(straight_summary.last_checkpoint))
        << "slots, counters";
    EXPECT_EQ(record.losses, straight_record.losses);
    for (const auto& [step, loss] : straight_record.reported_losses) {
      EXPECT_EQ(record.reported_losses.at(step), loss) << "report at " << step << ", cut at " << cut;
    }
    EXPECT_EQ(record.evaluations.back().sum_loss, straight_record.evaluations.back().sum_loss);
    for (const std::string& event : straight_events) {
      if (event.starts_with("epoch") && std::stoll(event.substr(event.rfind(' '))) >= cut) {
        EXPECT_THAT(events, testing::Contains(event)) << "cut at " << cut;
      }
    }
  }
}

// Which batches of the stream a step was made of, by the random keys that the model was given.
struct BatchesOfSteps {
  explicit BatchesOfSteps(ToyTraining& toy) {
    toy.model.before_step = [this](const ReplicaContext& context) {
      if (context.replica == 0) open.push_back(context.batch);
    };
    class Close final : public Callback {
     public:
      explicit Close(BatchesOfSteps& batches) : batches_(batches) {}
      void step_ends(const StepEnd&) override { batches_.steps.push_back(std::exchange(batches_.open, {})); }

     private:
      BatchesOfSteps& batches_;
    };
    toy.trainer.add_callback(std::make_unique<Close>(*this));
  }
  std::vector<int64_t> open;
  std::vector<std::vector<int64_t>> steps;
};

TEST(Trainer, MakesAStepOfSeveralBatchesAndAnEpochsEndCompletesIt) {
  const TemporaryFolder folder;
  ToyTraining toy({.accumulate = 3,
                   .report_every = 2,
                   .token_features = {"x"},
                   .evaluation = [] { return std::make_unique<RegressionSource>(2); },
                   .checkpoint_folder = folder.path()});
  BatchesOfSteps batches(toy);
  std::vector<std::string> events;
  toy.trainer.add_callback(std::make_unique<Diary>(events));
  Record record;
  toy.trainer.add_callback(std::make_unique<Recorder>(record));
  RegressionSource source(8, 0, 5);
  const TrainingSummary summary = toy.trainer.train(source);
  EXPECT_THAT(batches.steps, ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4), ElementsAre(5, 6, 7)));
  EXPECT_EQ(toy.trainer.step(), 3);
  EXPECT_EQ(toy.trainer.micro_batches(), 8);
  EXPECT_THAT(events, ElementsAre("start at 0", "step 1", "report 1 of 1", "step 2", "report 2 of 1",  //
                                  "evaluation at 2", "epoch 0 ends at 2", "checkpoint-00000002",       //
                                  "step 3", "report 3 of 1",                                           //
                                  "evaluation at 3", "epoch 1 ends at 3", "checkpoint-00000003", "end at 3"));
  EXPECT_EQ(record.reports[0].rows, 16 + 15 + 14);
  EXPECT_EQ(record.reports[1].tokens, (16 + 15) * 5);
  EXPECT_EQ(record.reports[2].learning_rate, toy.trainer.schedule().learning_rate(2))
      << "the third value of the schedule";
  EXPECT_EQ(summary.whole.rows, 16 + 15 + 14 + 16 + 15 + 14 + 16 + 15);
}

TEST(Trainer, TheDataMayEndWithinAStepOfSeveralBatches) {
  for (const int64_t total_steps : {0, 2, 9}) {
    ToyTraining toy({.accumulate = 4, .total_steps = total_steps});
    BatchesOfSteps batches(toy);
    RegressionSource source(5);
    const TrainingSummary summary = toy.trainer.train(source);
    EXPECT_THAT(batches.steps, ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4)));
    EXPECT_EQ(summary.step, 2);
  }
}

TEST(Trainer, TakesNoBatchBeyondItsLastStep) {
  ToyTraining toy({.accumulate = 2, .total_steps = 3});
  RegressionSource source(1000);
  toy.trainer.train(source);
  EXPECT_EQ(source.next()->view.rows(), 16) << "the seventh batch, number 6";
  EXPECT_EQ(source.next()->view.rows(), 15);
}

TEST(Trainer, CutInTwoByACheckpointItIsTheSameTrainingWithStepsOfSeveralBatches) {
  const TemporaryFolder folder;
  const auto options = [&](const std::string& name, int threads) {
    return TrainerOptions{.step = {.threads = threads, .seed = 11},
                          .accumulate = 2,
                          .total_steps = 20,
                          .report_every = 5,
                          .evaluation = [] { return std::make_unique<RegressionSource>(3); },
                          .checkpoint_folder = folder.path(name)};
  };
  constexpr int64_t kPerEpoch = 9;  // five steps
  ToyTraining straight(options("straight", 2));
  RegressionSource source(1000, 0, kPerEpoch);
  const std::string expected = straight.trainer.train(source).last_checkpoint;
  EXPECT_EQ(straight.trainer.micro_batches(), 36);
  // Within an epoch; where one ends with a short step; at the end.
  for (const int64_t cut : {3, 5, 20}) {
    ToyTraining first(options(std::to_string(cut), 1));
    auto stop = std::make_unique<StopAfter>(cut);
    const auto asked = stop->asked();
    first.trainer.add_callback(std::move(stop));
    RegressionSource head(1000, 0, kPerEpoch);
    const TrainingSummary stopped = first.trainer.train(head, asked);
    EXPECT_EQ(stopped.step, cut);
    ToyTraining second(options(std::to_string(cut), 4));
    second.trainer.resume(stopped.last_checkpoint);
    EXPECT_EQ(second.trainer.micro_batches(), cut == 3 ? 6 : cut == 5 ? 9 : 36);
    RegressionSource tail(1000, second.trainer.micro_batches(), kPerEpoch);
    EXPECT_EQ(training_files(second.trainer.train(tail).last_checkpoint), training_files(expected)) << "cut at " << cut;
  }
}

// An evaluation that was due at the stop is made up for, and the list of the best goes on.
TEST(Trainer, CutInTwoAndInAnotherFolderItKeepsTheSameBestModels) {
  const TemporaryFolder folder;
  const auto options = [&](const std::string& name) {
    TrainerOptions all{.step = {.seed = 11},
                       .accumulate = 2,
                       .total_steps = 20,
                       .checkpoint_folder = folder.path(name + "/checkpoints")};
    testing_models::keep_best(all, folder.path(name + "/best"), 2);
    all.evaluate_every = 3;
    // Neither the first nor the last ones are the best.
    all.keep_best->models.metric = "distance";
    all.keep_best->models.better = Better::kLower;
    all.keep_best->value = [](const EvaluationReport& report) { return std::abs(report.step - 10.5); };
    return all;
  };
  ToyTraining straight(options("straight"));
  std::vector<std::string> events;
  straight.trainer.add_callback(std::make_unique<Diary>(events));
  RegressionSource source(1000);
  const TrainingSummary whole = straight.trainer.train(source);
  ASSERT_EQ(whole.best_models.size(), 2U);
  EXPECT_EQ(whole.best_models[0].step, 9);
  EXPECT_EQ(whole.best_models[0].value, 1.5);
  EXPECT_EQ(whole.best_models[0].path, folder.path("straight/best/step-00000009"));
  EXPECT_EQ(whole.best_models[1].step, 12) << "the later one of two that are as good";
  EXPECT_THAT(events, testing::Contains("kept 3 as distance 7.5 of 1"));
  EXPECT_THAT(events, testing::Contains("kept 12 as distance 1.5 of 2"));
  EXPECT_THAT(events, testing::Not(testing::Contains(testing::StartsWith("kept 15"))));
  const auto expected = training_files(folder.path("straight/best"));
  ASSERT_EQ(expected.size(), 2U * 2) << "weights, and what the evaluation said";

  for (const int64_t cut : {6, 7, 9, 12, 20}) {
    const std::string name = std::to_string(cut);
    ToyTraining first(options(name));
    auto stop = std::make_unique<StopAfter>(cut);
    const auto asked = stop->asked();
    first.trainer.add_callback(std::move(stop));
    RegressionSource head(1000);
    const std::string checkpoint = first.trainer.train(head, asked).last_checkpoint;
    ToyTraining second(options(name + "/again"));
    second.trainer.resume(checkpoint);
    RegressionSource tail(1000, second.trainer.micro_batches());
    const TrainingSummary summary = second.trainer.train(tail);
    EXPECT_EQ(training_files(folder.path(name + "/again/best")), expected) << "cut at " << cut;
    EXPECT_EQ(training_files(summary.last_checkpoint), training_files(whole.last_checkpoint)) << "cut at " << cut;
    EXPECT_EQ(trainings_in(folder.path(name)), trainings_in(checkpoint)) << "one training in two parts";
    EXPECT_NE(trainings_in(folder.path(name)), trainings_in(folder.path("straight")));
  }
}

// Evaluates every 3 steps, of which those around the tenth are the best.
TrainerOptions best_in_the_middle(const std::string& checkpoints, const std::string& best, uint64_t seed) {
  TrainerOptions options{
      .step = {.seed = seed}, .total_steps = 20, .checkpoint_folder = checkpoints, .checkpoints = {.keep_last = 1}};
  testing_models::keep_best(options, best, 2);
  options.evaluate_every = 3;
  options.keep_best->models.metric = "distance";
  options.keep_best->models.better = Better::kLower;
  options.keep_best->value = [](const EvaluationReport& report) { return std::abs(report.step - 10.5); };
  return options;
}

// Trains on, until a step.
std::string train_until(ToyTraining& toy, int64_t steps) {
  auto stop = std::make_unique<StopAfter>(steps - toy.trainer.step());
  const auto asked = stop->asked();
  toy.trainer.add_callback(std::move(stop));
  RegressionSource source(1000, toy.trainer.micro_batches());
  return toy.trainer.train(source, asked).last_checkpoint;
}

TEST(Trainer, RefusesAtItsStartAFolderWithTheBestModelsOfAnotherTraining) {
  const TemporaryFolder folder;
  const std::string best = folder.path("best");
  ToyTraining other(best_in_the_middle(folder.path("other"), best, 1));
  train_until(other, 10);
  ToyTraining elsewhere(best_in_the_middle(folder.path("mine"), folder.path("best of mine"), 2));
  const std::string checkpoint = train_until(elsewhere, 10);
  const auto before = files_below(folder.path());
  ASSERT_TRUE(before.contains("best/step-00000009/model.safetensors"));
  for (const bool resumed : {false, true}) {
    ToyTraining toy(best_in_the_middle(folder.path("mine"), best, 2));
    if (resumed) toy.trainer.resume(checkpoint);
    std::vector<std::string> events;
    toy.trainer.add_callback(std::make_unique<Diary>(events));
    RegressionSource source(1000, toy.trainer.micro_batches());
    EXPECT_EQ(thrown_by([&] { toy.trainer.train(source); }),
              fmt::format("invalid_argument: the folder for the best models {} holds 2 of another training; remove or "
                          "move them",
                          best));
    EXPECT_THAT(events, ElementsAre()) << "not a step";
    EXPECT_EQ(files_below(folder.path()), before);
  }
}

// Fails after so many batches, which leaves no checkpoint, as a kill.
class FailingSource final : public BatchSource {
 public:
  explicit FailingSource(int batches) : left_(batches) {}
  std::optional<GlobalBatch> next() override {
    if (left_-- == 0) throw ErrorException(ErrorCode::kIo, "killed");
    return source_.next();
  }

 private:
  int left_;
  RegressionSource source_{1000};
};

// As a kill leaves it between the first evaluation and the first checkpoint.
TEST(Trainer, BeginsAnewOverTheBestModelsOfARunThatWasKilledBeforeItsFirstCheckpoint) {
  const TemporaryFolder folder;
  const std::string best = folder.path("best");
  const TrainerOptions options = best_in_the_middle(folder.path("checkpoints"), best, 1);
  {
    ToyTraining killed(options);
    FailingSource source(4);
    EXPECT_EQ(thrown_by([&] { killed.trainer.train(source); }), "io: killed");
  }
  EXPECT_EQ(newest_checkpoint(options.checkpoint_folder), std::nullopt);
  for (const bool resumes : {false, true}) {
    TrainerOptions elsewhere = options;
    if (resumes) elsewhere.checkpoint_folder = folder.path("elsewhere");
    ToyTraining refused(elsewhere);
    if (resumes) refused.trainer.resume_newest();
    RegressionSource none(1000);
    EXPECT_THAT(thrown_by([&] { refused.trainer.train(none); }), testing::HasSubstr("of another training"));
  }
  {
    ToyTraining stopped(options);
    EXPECT_EQ(stopped.trainer.resume_newest(), std::nullopt);
    RegressionSource none(1000);
    stopped.trainer.train(none, [] { return true; });
    EXPECT_EQ(best_models_in(best).size(), 1U) << "there is nothing better yet";
  }

  ToyTraining again(options);
  EXPECT_EQ(again.trainer.resume_newest(), folder.path("checkpoints/checkpoint-00000000"));
  const std::string checkpoint = train_until(again, 10);
  EXPECT_FALSE(std::filesystem::exists(folder.path("checkpoints/training.id"))) << "the checkpoint has it";
  ASSERT_EQ(best_models_in(best).size(), 2U);
  EXPECT_EQ(trainings_in(best), trainings_in(checkpoint)) << "the killed run's are gone";

  ToyTraining further(options);
  EXPECT_EQ(further.trainer.resume_newest(), checkpoint);
  EXPECT_EQ(further.trainer.step(), 10);
  RegressionSource tail(1000, further.trainer.micro_batches());
  const TrainingSummary summary = further.trainer.train(tail);
  ASSERT_EQ(summary.best_models.size(), 2U);
  EXPECT_EQ(summary.best_models[0].step, 9);

  ToyTraining without({.total_steps = 2});
  EXPECT_EQ(thrown_by([&] { (void)without.trainer.resume_newest(); }),
            "invalid_argument: there is no checkpoint_folder to look for the newest one in");
}

TEST(Trainer, WritesFurtherFilesBesideTheWeightsOfABestModel) {
  const TemporaryFolder folder;
  TrainerOptions options{.total_steps = 1};
  testing_models::keep_best(options, folder.path("best"), 1);
  options.keep_best->more_files = [](const std::string& directory) {
    EXPECT_TRUE(std::filesystem::exists(directory + "/model.safetensors")) << "it comes after the weights";
    test::write_file(directory + "/config.json", "{}");
  };
  ToyTraining toy(options);
  RegressionSource source(1000);
  const TrainingSummary summary = toy.trainer.train(source);
  ASSERT_EQ(summary.best_models.size(), 1U);
  EXPECT_EQ(read_file(summary.best_models[0].path + "/config.json"), "{}");
  EXPECT_EQ(load_parameters(summary.best_models[0].path, toy.trainer.layout()).span()[0], toy.trainer.weights()[0]);
}

TEST(Trainer, RefusesAtItsStartAFolderWithTheCheckpointsOfAnotherTraining) {
  const TemporaryFolder folder;
  const TrainerOptions options{.total_steps = 2, .checkpoint_folder = folder.path("checkpoints")};
  const auto train = [](Trainer& trainer) {
    RegressionSource source(1000, trainer.micro_batches());
    return trainer.train(source).last_checkpoint;
  };
  ToyTraining first(options);
  const std::string checkpoint = train(first.trainer);
  TrainerOptions elsewhere = options;
  elsewhere.checkpoint_folder = folder.path("elsewhere");
  ToyTraining other(elsewhere);
  const std::string of_another = train(other.trainer);
  for (const std::string& resumed : {std::string(), of_another}) {
    ToyTraining toy(options);
    if (!resumed.empty()) toy.trainer.resume(resumed);
    const auto before = files_below(folder.path());
    EXPECT_EQ(thrown_by([&] { train(toy.trainer); }),
              fmt::format("invalid_argument: the folder for checkpoints {} holds 1 of another training; go on from one "
                          "of them with Trainer::resume, or remove or move them",
                          options.checkpoint_folder));
    EXPECT_EQ(files_below(folder.path()), before);
  }
  TrainerOptions replaces = options;
  replaces.checkpoints.replace_others = true;
  ToyTraining replacing(replaces);
  EXPECT_EQ(train(replacing.trainer), checkpoint);
  // Of an earlier version, without an id: one that goes on from it may stay beside it, a fresh training not.
  std::filesystem::remove(checkpoint + "/training.id");
  ToyTraining fresh(options);
  EXPECT_THAT(thrown_by([&] { train(fresh.trainer); }), testing::HasSubstr("holds 1 of another training"));
  TrainerOptions longer = options;
  longer.total_steps = 3;
  for (int i = 0; i < 2; ++i, ++longer.total_steps) {
    ToyTraining resumed(longer);
    resumed.trainer.resume(newest_checkpoint(options.checkpoint_folder).value());
    EXPECT_EQ(thrown_by([&] { train(resumed.trainer); }), "nothing thrown");
  }
}

TEST(Trainer, WhileNoBestModelsAreKeptTheirListStaysInTheCheckpoints) {
  const TemporaryFolder folder;
  const auto options = best_in_the_middle(folder.path("checkpoints"), folder.path("best"), 3);
  ToyTraining first(options);
  const std::string checkpoint = train_until(first, 10);
  const std::string list = read_file(checkpoint + "/best.json");
  const auto models = files_below(checkpoint + "/best");
  ASSERT_EQ(models.size(), 2U * 3);
  const auto best = files_below(folder.path("best"));
  TrainerOptions without = options;
  without.keep_best.reset();
  without.checkpoint_every = 2;
  ToyTraining second(without);
  second.trainer.resume(checkpoint);
  const std::string later = train_until(second, 16);
  EXPECT_FALSE(std::filesystem::exists(checkpoint)) << "a copy of a copy";
  EXPECT_EQ(read_file(later + "/best.json"), list);
  EXPECT_EQ(files_below(later + "/best"), models);
  ToyTraining third(options);
  third.trainer.resume(later);
  RegressionSource tail(1000, third.trainer.micro_batches());
  const TrainingSummary summary = third.trainer.train(tail);
  ASSERT_EQ(summary.best_models.size(), 2U);
  EXPECT_EQ(summary.best_models[0].step, 9);
  EXPECT_EQ(summary.best_models[1].step, 6) << "12 was evaluated while none were kept";
  EXPECT_EQ(files_below(folder.path("best")), best);
}

TEST(Trainer, ACheckpointWithoutAnIdGoesOnUnderANewOne) {
  const TemporaryFolder folder;
  ToyTraining straight({.total_steps = 6, .checkpoint_folder = folder.path("straight")});
  RegressionSource source(1000);
  const std::string expected = straight.trainer.train(source).last_checkpoint;
  ToyTraining first({.total_steps = 6, .checkpoint_folder = folder.path("cut")});
  const std::string checkpoint = train_until(first, 3);
  ASSERT_TRUE(std::filesystem::remove(checkpoint + "/training.id"));
  ToyTraining second({.total_steps = 6, .checkpoint_folder = folder.path("cut")});
  second.trainer.resume(checkpoint);
  const std::string last = train_until(second, 6);
  EXPECT_EQ(training_files(last), training_files(expected));
  EXPECT_THAT(trainings_in(last), ElementsAre(testing::MatchesRegex("[0-9a-f]{32}\n")));
}

TEST(Trainer, ATrainingAfterAnErrorWithinAStepCountsNothingTwice) {
  class Breaks final : public BatchSource {
   public:
    std::optional<GlobalBatch> next() override {
      if (++taken_ == 4) throw ErrorException(ErrorCode::kIo, "gone");
      return batches_.next();
    }

   private:
    int taken_ = 0;
    RegressionSource batches_{100};
  };
  const TrainerOptions options = {.accumulate = 2, .total_steps = 3};
  ToyTraining toy(options);
  Breaks breaks;
  EXPECT_EQ(thrown_by([&] { toy.trainer.train(breaks); }), "io: gone");
  EXPECT_EQ(toy.trainer.micro_batches(), 2) << "those of whole steps";
  RegressionSource rest(100, 2);
  toy.trainer.train(rest);
  ToyTraining straight(options);
  RegressionSource source(100);
  straight.trainer.train(source);
  EXPECT_EQ(toy.weights(), straight.weights());
}

TEST(Trainer, ACheckpointWrittenAtTheEndOfAnEpochDoesNotEndItAgain) {
  const TemporaryFolder folder;
  const TrainerOptions options = {.total_steps = 5,
                                  .evaluation = [] { return std::make_unique<RegressionSource>(3); },
                                  .checkpoint_folder = folder.path()};
  ToyTraining first(options);
  RegressionSource source(5, 0, 3);
  first.trainer.train(source);
  ToyTraining second(options);
  std::vector<std::string> events;
  second.trainer.add_callback(std::make_unique<Diary>(events));
  second.trainer.resume(folder.path("checkpoint-00000003"));
  RegressionSource rest(5, 3, 3);
  second.trainer.train(rest);
  EXPECT_THAT(events, ElementsAre("start at 3", "step 4", "step 5", "report 5 of 2", "evaluation at 5",
                                  "checkpoint-00000005", "end at 5"));
}

TEST(Trainer, StopsAfterTheStepInWhichItIsAskedToAndLeavesACheckpoint) {
  const TemporaryFolder folder;
  ToyTraining toy({.total_steps = 50,
                   .report_every = 10,
                   .evaluation = [] { return std::make_unique<RegressionSource>(2); },
                   .evaluate_every = 3,
                   .checkpoint_folder = folder.path()});
  std::vector<std::string> events;
  toy.trainer.add_callback(std::make_unique<Diary>(events));
  auto stop = std::make_unique<StopAfter>(3);
  const auto asked = stop->asked();
  toy.trainer.add_callback(std::move(stop));
  RegressionSource source(100);
  const TrainingSummary summary = toy.trainer.train(source, asked);
  EXPECT_TRUE(summary.stopped);
  EXPECT_EQ(summary.step, 3);
  EXPECT_THAT(events, ElementsAre("start at 0", "step 1", "report 1 of 1", "step 2", "step 3", "report 3 of 2",
                                  "checkpoint-00000003", "end at 3"));
}

TEST(Trainer, AnEvaluationIsGivenUpWhenAStopIsAskedFor) {
  const TemporaryFolder folder;
  bool asked = false;
  class AskAtSecondBatch final : public BatchSource {
   public:
    explicit AskAtSecondBatch(bool& flag) : flag_(flag), batches_(100) {}
    std::optional<GlobalBatch> next() override {
      if (++count_ == 2) flag_ = true;
      EXPECT_LE(count_, 2) << "batches after the stop";
      return batches_.next();
    }

   private:
    bool& flag_;
    RegressionSource batches_;
    int count_ = 0;
  };
  ToyTraining toy(
      {.evaluation = [&] { return std::make_unique<AskAtSecondBatch>(asked); }, .checkpoint_folder = folder.path()});
  std::vector<std::string> events;
  toy.trainer.add_callback(std::make_unique<Diary>(events));
  RegressionSource source(100, 0, 2);
  const TrainingSummary summary = toy.trainer.train(source, [&] { return asked; });
  EXPECT_TRUE(summary.stopped);
  EXPECT_THAT(events, ElementsAre("start at 0", "step 1", "report 1 of 1", "step 2", "report 2 of 1",
                                  "checkpoint-00000002", "end at 2"));
}

TEST(Trainer, AnErrorOfTheModelNamesTheReplicaAndEndsTheTraining) {
  ToyTraining toy({.total_steps = 50});
  toy.model.before_step = [](const ReplicaContext& context) {
    if (context.batch == 6 && context.replica == 2) throw std::runtime_error("out of luck");
  };
  std::vector<std::string> events;
  toy.trainer.add_callback(std::make_unique<Diary>(events));
  RegressionSource source(100);
  EXPECT_EQ(thrown_by([&] { toy.trainer.train(source); }), "user_function: replica 2, step 7 (batch 6): out of luck");
  EXPECT_EQ(events.back(), "step 6");
  EXPECT_EQ(toy.trainer.step(), 6);
}

TEST(Trainer, RefusesOptionsThatCannotWork) {
  const auto refusal = [](TrainerOptions options) { return thrown_by([&] { ToyTraining toy(std::move(options)); }); };
  EXPECT_EQ(refusal({.total_steps = -1}), "invalid_argument: total_steps is -1; 0 to 1000000000000 are possible");
  EXPECT_EQ(refusal({.accumulate = 0}), "invalid_argument: accumulate is 0; 1 to 1000000 are possible");
  EXPECT_EQ(refusal({.accumulate = kMostAccumulate + 1}),
            "invalid_argument: accumulate is 1000001; 1 to 1000000 are possible");
  EXPECT_EQ(refusal({.step = {.replicas = kMostReplicas + 1}}),
            "invalid_argument: replicas is 1025; 1 to 1024 are possible");
  EXPECT_EQ(refusal({.step = {.threads = kMostStepThreads + 1}}),
            "invalid_argument: threads is 1025; 0 to 1024 are possible");
  EXPECT_EQ(refusal({.report_every = 0}), "invalid_argument: report_every is 0; at least 1 is needed");
  EXPECT_EQ(refusal({.evaluate_every = 5}),
            "invalid_argument: evaluate_every is set, but there is nothing to evaluate on");
  EXPECT_EQ(refusal({.keep_best = KeepBest{.folder = "x"}}),
            "invalid_argument: keep_best is set, but there is nothing to evaluate on");
  EXPECT_EQ(refusal({.checkpoint_every = 5}),
            "invalid_argument: checkpoint_every is set, but there is no checkpoint_folder");
  EXPECT_EQ(refusal({.checkpoint_folder = "x", .checkpoints = {.keep_last = 0}}),
            "invalid_argument: keep_last is 0; at least 1 is needed");
  EXPECT_EQ(refusal({.most_skipped_in_a_row = -1}),
            "invalid_argument: most_skipped_in_a_row is -1; at least 0 is needed");
  const Regression model;
  EXPECT_EQ(thrown_by([&] { const Trainer trainer(model, nullptr, constant_rate(1), {}); }),
            "invalid_argument: a trainer needs an optimizer");
  EXPECT_EQ(
      thrown_by([&] { const Trainer trainer(model, std::make_unique<Adam>(model.layout(), adamw()), nullptr, {}); }),
      "invalid_argument: a trainer needs a schedule");
}

TEST(Trainer, TheLastCheckpointKnowsOfTheLastEvaluation) {
  // The checkpoint of step 3 is due before the evaluation at the training's end.
  class Evaluations final : public Callback {
   public:
    void evaluation_ends(const EvaluationReport& report) override { state_ = std::to_string(report.step); }
    std::string state_name() const override { return "evaluations"; }
    std::string save_state() const override { return state_; }

   private:
    std::string state_;
  };
  const TemporaryFolder folder;
  ToyTraining toy({.total_steps = 3,
                   .evaluation = [] { return std::make_unique<RegressionSource>(2); },
                   .checkpoint_folder = folder.path(),
                   .checkpoint_every = 3});
  toy.trainer.add_callback(std::make_unique<Evaluations>());
  RegressionSource source(100);
  const std::string checkpoint = toy.trainer.train(source).last_checkpoint;
  const auto json = nlohmann::json::parse(test::read_file(checkpoint + "/training.json"));
  EXPECT_EQ(json.at("callbacks").at("evaluations"), "3");
}

TEST(Trainer, RefusesACheckpointOfAModelWithOtherNumbersThanShapes) {
  const TemporaryFolder folder;
  const TrainerOptions options = {.total_steps = 3, .checkpoint_folder = folder.path()};
  ToyTraining saved(options);
  EXPECT_EQ(saved.model.description, "");
  Regression model;
  model.description = "regression(heads=4)";
  const auto trainer_of = [&](const Regression& trained) {
    return Trainer(trained, std::make_unique<Sgd>(), milestones(0.01, {}, 1), options);
  };
  Trainer first = trainer_of(model);
  RegressionSource source(100);
  const std::string checkpoint = first.train(source).last_checkpoint;
  Regression other;
  other.description = "regression(heads=8)";
  Trainer second = trainer_of(other);
  const std::vector<float> before(second.weights().begin(), second.weights().end());
  EXPECT_EQ(thrown_by([&] { second.resume(checkpoint); }),
            fmt::format("invalid_argument: the checkpoint {} was made with the model regression(heads=4), this run has "
                        "regression(heads=8)",
                        checkpoint));
  EXPECT_TRUE(std::ranges::equal(second.weights(), before));
  Trainer third = trainer_of(model);
  third.resume(checkpoint);
  EXPECT_EQ(third.step(), 3);
  // Versions before the fifth do not say what the model was; what goes on from one says it.
  nlohmann::json json = nlohmann::json::parse(test::read_file(checkpoint + "/training.json"));
  EXPECT_EQ(json.at("model"), "regression(heads=4)");
  json.erase("model");
  json["version"] = 4;
  test::write_file(checkpoint + "/training.json", json.dump());
  second.resume(checkpoint);
  RegressionSource rest(100);
  const std::string next = second.train(rest).last_checkpoint;
  EXPECT_EQ(read_progress(next).model, "regression(heads=8)");
}

// Its square would be infinite forever; a step with a gradient like that is skipped, so it takes an optimizer of one's
// own to get there.
TEST(Trainer, SlotsThatAreNotFiniteNeverReachACheckpoint) {
  class Sour final : public Optimizer {
   public:
    std::span<const std::string_view> slot_names() const override { return names_; }
    std::string describe() const override { return "sour"; }
    void update(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers) const override {
      if (step.number == 3 && range.parameter == 2) {
        buffers.slots[0][range.begin] = std::numeric_limits<float>::infinity();
      }
    }

   private:
    std::array<std::string_view, 1> names_ = {"v"};
  };
  const TemporaryFolder folder;
  const Regression model;
  Trainer trainer(model, std::make_unique<Sour>(), milestones(0.01, {}, 1),
                  {.total_steps = 50, .checkpoint_folder = folder.path(), .checkpoint_every = 1});
  RegressionSource source(100);
  EXPECT_EQ(thrown_by([&] { trainer.train(source); }),
            fmt::format(
                "not_finite: after step 3 the optimizer's values 'v' of 'second.weight' are not finite; no checkpoint "
                "was written, the last one is {}",
                folder.path("checkpoint-00000002")));
}

TEST(Trainer, RefusesACheckpointOfAnotherSeedOrAccumulateOrOtherReplicasAndStaysAsItWas) {
  const TemporaryFolder folder;
  ToyTraining saved({.step = {.replicas = 8, .seed = 1}, .total_steps = 3, .checkpoint_folder = folder.path()});
  RegressionSource source(100);
  const std::string checkpoint = saved.trainer.train(source).last_checkpoint;
  const std::vector<std::pair<TrainerOptions, std::string>> others = {
      {{.step = {.replicas = 8, .seed = 2}}, "seed 1, this run has 2"},
      {{.step = {.replicas = 8, .seed = 1}, .accumulate = 4}, "accumulate 1, this run has 4"},
      {{.step = {.replicas = 4, .seed = 1}}, "replicas 8, this run has 4"},
      {{.step = {.replicas = 9, .seed = 1}}, "replicas 8, this run has 9"}};
  for (const auto& [options, refusal] : others) {
    ToyTraining other(options);
    const std::vector<float> before = other.weights();
    EXPECT_EQ(thrown_by([&] { other.trainer.resume(checkpoint); }),
              fmt::format("invalid_argument: the checkpoint {} was made with {}", checkpoint, refusal));
    EXPECT_EQ(other.weights(), before);
    EXPECT_EQ(other.trainer.step(), 0);
  }
  // Versions before the fourth do not say how many replicas there were.
  nlohmann::json json = nlohmann::json::parse(test::read_file(checkpoint + "/training.json"));
  EXPECT_EQ(json.at("replicas"), 8);
  json.erase("replicas");
  json["version"] = 3;
  test::write_file(checkpoint + "/training.json", json.dump());
  ToyTraining other({.step = {.replicas = 4, .seed = 1}});
  other.trainer.resume(checkpoint);
  EXPECT_EQ(other.trainer.step(), 3);
}

}  // namespace
}  // namespace millrace::trainer_test
