// Trainings in phases: each with an optimizer, a schedule and frozen parts of its own, and one training all the same.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/trainer/optimizers/radam.h"
#include "millrace/trainer/optimizers/sgd.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/toy_training.h"
#include "tests/trainer/training_files.h"

namespace millrace::training_phases_test {
namespace {

using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_models::keep_best;
using testing_models::Regression;
using testing_models::RegressionSource;
using testing_models::thrown_by;
using testing_models::training_files;

constexpr int64_t kSecond = 4;  // steps before the second phase
constexpr int64_t kThird = 9;
constexpr int64_t kSteps = 14;

std::unique_ptr<Schedule> falling(int64_t steps) {
  return linear_warmup_decay({.learning_rate = 0.02, .warmup_steps = 1, .total_steps = steps, .start_rate = 0.001});
}

// AdamW with the first layer frozen, then RAdam, then SGD with the second layer frozen.
struct PhasedTraining {
  explicit PhasedTraining(TrainerOptions options, int64_t second = kSecond)
      : trainer(model, std::make_unique<Adam>(model.layout(), adamw(0.1, "bias")), falling(second),
                ((options.frozen = "^first", options.total_steps = kSteps), std::move(options))) {
    trainer.add_phase({.first_step = second,
                       .optimizer = std::make_unique<Radam>(model.layout()),
                       .schedule = falling(kThird - second)});
    trainer.add_phase({.first_step = kThird,
                       .optimizer = std::make_unique<Sgd>(),
                       .schedule = constant_rate(0.003),
                       .frozen = "^second"});
  }

  Regression model;
  Trainer trainer;
};

std::vector<float> weights_of(Trainer& trainer) { return {trainer.weights().begin(), trainer.weights().end()}; }

// What the phases begin with and how their steps go: all of it but times and places.
class PhaseDiary final : public Callback {
 public:
  explicit PhaseDiary(std::vector<std::string>& events) : events_(events) {}
  void phase_begins(const PhaseStart& start) override {
    events_.push_back(fmt::format("phase {} of {} at {}: {} trained, {}", start.number, start.num_phases, start.step,
                                  start.num_trained, start.optimizer.substr(0, start.optimizer.find('('))));
  }
  void report(const TrainingReport& report) override {
    if (report.step % 2 == 0 || report.step == 1) {
      events_.push_back(fmt::format("report {}: {} {}", report.step, report.loss, report.learning_rate));
    }
  }

 private:
  std::vector<std::string>& events_;
};

TEST(TrainingPhases, EachBeginsAnewWithTheWeightsOfTheOneBefore) {
  PhasedTraining phased({.step = {.threads = 2}});
  RegressionSource all(kSteps);
  phased.trainer.train(all);

  // The same as three trainings, one after the other.
  const Regression model;
  std::vector<float> weights;
  const auto train = [&](std::unique_ptr<Optimizer> optimizer, std::unique_ptr<Schedule> schedule,
                         const std::string& frozen, int64_t from, int64_t to) {
    Trainer trainer(model, std::move(optimizer), std::move(schedule), {.frozen = frozen, .total_steps = to - from});
    if (!weights.empty()) std::ranges::copy(weights, trainer.weights().begin());
    RegressionSource source(kSteps, from);
    trainer.train(source);
    weights = weights_of(trainer);
  };
  train(std::make_unique<Adam>(model.layout(), adamw(0.1, "bias")), falling(kSecond), "^first", 0, kSecond);
  train(std::make_unique<Radam>(model.layout()), falling(kThird - kSecond), "", kSecond, kThird);
  train(std::make_unique<Sgd>(), constant_rate(0.003), "^second", kThird, kSteps);
  EXPECT_EQ(weights_of(phased.trainer), weights);
}

TEST(TrainingPhases, AreSaidOnceEachWhenTheirFirstStepComes) {
  std::vector<std::string> events;
  PhasedTraining phased({.report_every = 100});
  phased.trainer.add_callback(std::make_unique<PhaseDiary>(events));
  RegressionSource source(kSteps);
  phased.trainer.train(source);
  std::erase_if(events, [](const std::string& event) { return !event.starts_with("phase"); });
  EXPECT_THAT(events, ElementsAre("phase 1 of 3 at 4: 50 trained, radam", "phase 2 of 3 at 9: 42 trained, sgd"));
}

// A stop after any step, those before a phase's first one too, and with steps of two batches of which ends of epochs
// leave one.
TEST(TrainingPhases, CutInTwoAnywhereItIsTheSameTraining) {
  constexpr int64_t kPerEpoch = 5;
  constexpr int64_t kBatches = 100;
  const TemporaryFolder folder;
  const auto options = [&](const std::string& name) {
    TrainerOptions all{.step = {.threads = 2}, .accumulate = 2, .report_every = 2};
    keep_best(all, folder.path(name + "/best"), 2);
    all.evaluate_every = 3;
    all.checkpoint_folder = folder.path(name);
    all.checkpoint_every = 100;
    return all;
  };
  std::vector<std::string> expected_events;
  PhasedTraining straight(options("straight"));
  straight.trainer.add_callback(std::make_unique<PhaseDiary>(expected_events));
  RegressionSource all(kBatches, 0, kPerEpoch);
  const auto expected = training_files(straight.trainer.train(all).last_checkpoint);
  ASSERT_EQ(expected_events.size(), 2U + 1 + kSteps / 2);

  for (int64_t stop = 0; stop <= kSteps; ++stop) {
    const std::string name = fmt::format("stopped{}", stop);
    std::vector<std::string> events;
    std::string checkpoint;
    {
      PhasedTraining first(options(name));
      first.trainer.add_callback(std::make_unique<PhaseDiary>(events));
      RegressionSource source(kBatches, 0, kPerEpoch);
      checkpoint = first.trainer.train(source, [&] { return first.trainer.step() == stop; }).last_checkpoint;
    }
    PhasedTraining second(options(name));
    second.trainer.add_callback(std::make_unique<PhaseDiary>(events));
    second.trainer.resume(checkpoint);
    RegressionSource rest(kBatches, second.trainer.micro_batches(), kPerEpoch);
    const auto files = training_files(second.trainer.train(rest).last_checkpoint);
    EXPECT_TRUE(files == expected) << "stopped after step " << stop;
    EXPECT_EQ(weights_of(second.trainer), weights_of(straight.trainer)) << "stopped after step " << stop;
    EXPECT_EQ(events, expected_events) << "stopped after step " << stop;
  }
}

TEST(TrainingPhases, RefuseWhatCannotBeAndCheckpointsOfOtherPhases) {
  const auto added = [](int64_t first_step, const std::string& frozen = "") {
    return thrown_by([&] {
      PhasedTraining phased({});
      phased.trainer.add_phase({.first_step = first_step,
                                .optimizer = std::make_unique<Sgd>(),
                                .schedule = constant_rate(1),
                                .frozen = frozen});
    });
  };
  EXPECT_THAT(added(kThird), HasSubstr("a phase begins after 9 steps; that must be after 9 and before 14"));
  EXPECT_THAT(added(kSteps), HasSubstr("a phase begins after 14 steps; that must be after 9 and before 14"));
  EXPECT_THAT(added(kThird + 1, "nosuchname"), HasSubstr("nosuchname"));
  EXPECT_THAT(added(kThird + 1, "."), HasSubstr("nothing is left to train"));
  EXPECT_THAT(thrown_by([] { PhasedTraining({}).trainer.add_phase({.first_step = 10}); }),
              HasSubstr("needs an optimizer for each phase"));

  const TemporaryFolder folder;
  PhasedTraining phased({.checkpoint_folder = folder.path()});
  RegressionSource source(kSteps);
  phased.trainer.train(source, [&] { return phased.trainer.step() == kSecond + 2; });
  const std::string checkpoint = folder.path("checkpoint-00000006");
  PhasedTraining other({.checkpoint_folder = folder.path()}, kSecond - 1);
  const std::vector<float> before = weights_of(other.trainer);
  EXPECT_THAT(thrown_by([&] { other.trainer.resume(checkpoint); }),
              testing::AllOf(HasSubstr("was made with the schedule"), HasSubstr("from step 4, this run has"),
                             HasSubstr("from step 3")));
  EXPECT_EQ(weights_of(other.trainer), before);
  EXPECT_EQ(other.trainer.step(), 0);
}

}  // namespace
}  // namespace millrace::training_phases_test
