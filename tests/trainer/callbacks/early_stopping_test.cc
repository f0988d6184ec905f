#include "millrace/trainer/callbacks/early_stopping.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"
#include "tests/trainer/toy_training.h"

namespace millrace::early_stopping_test {
namespace {

using testing::HasSubstr;
using testing_models::RegressionSource;
using testing_models::thrown_by;
using testing_models::ToyTraining;

// After how many evaluations of these values it has enough; 0: not at all.
int enough_after(const EarlyStoppingOptions& options, const std::vector<double>& values) {
  EarlyStopping stopping(options);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto step = static_cast<int64_t>(i);
    stopping.evaluation_ends({.step = step, .loss = values[i], .metrics = {{"accuracy", values[i]}}});
    if (stopping.finished()) return static_cast<int>(i) + 1;
  }
  return 0;
}

TEST(EarlyStopping, EndsAfterMoreEvaluationsWithoutAnImprovementThanItsPatience) {
  EXPECT_EQ(enough_after({.patience = 1}, {3, 2, 2, 1, 1, 1}), 6);
  EXPECT_EQ(enough_after({.patience = 0}, {3, 2, 2, 1}), 3);
  EXPECT_EQ(enough_after({.patience = 2}, {3, 2, 1, 0}), 0);
  EXPECT_EQ(enough_after({.patience = 1, .least_improvement = 0.5}, {3, 2.8, 2.6, 2.4}), 3);
  EXPECT_EQ(enough_after({.metric = "accuracy", .better = Better::kHigher, .patience = 0}, {0.1, 0.2, 0.15}), 3);
  EXPECT_EQ(enough_after({.patience = 1}, {1, std::nan(""), std::nan("")}), 3);
  EXPECT_EQ(enough_after({.patience = 0}, {std::nan(""), 1}), 1);
}

TEST(EarlyStopping, RefusesWhatCannotWorkAndAMetricThatIsNotThere) {
  EXPECT_THAT(thrown_by([] { EarlyStopping({.patience = -1}); }), HasSubstr("patience is -1"));
  EXPECT_THAT(thrown_by([] { (void)enough_after({.metric = "auc", .better = Better::kHigher}, {1}); }),
              HasSubstr("there are: loss, accuracy"));
  EarlyStopping stopping({.metric = "accuracy", .better = Better::kHigher});
  EXPECT_EQ(stopping.state_name(), "early_stopping(accuracy, higher)");
  EXPECT_EQ(EarlyStopping().state_name(), "early_stopping(loss, lower)");
  EXPECT_THAT(thrown_by([&] { stopping.restore_state(EarlyStopping().save_state()); }), HasSubstr("looks at loss"));
  EXPECT_THAT(thrown_by([&] { stopping.restore_state("{"); }), HasSubstr("state of early_stopping"));
}

// A training whose evaluations get worse from the start: on targets that are not those trained on.
struct Worsening : ToyTraining {
  Worsening(const std::string& folder, int64_t total_steps)
      : ToyTraining({.total_steps = total_steps,
                     .evaluation = [this] { return std::make_unique<Counted>(evaluations); },
                     .evaluate_every = 2,
                     .checkpoint_folder = folder,
                     .checkpoint_every = 2}) {
    trainer.add_callback(std::make_unique<EarlyStopping>(EarlyStoppingOptions{.patience = 3}));
  }
  // The n-th evaluation's loss is n.
  struct Counted final : BatchSource {
    explicit Counted(int& n) : count(n) {}
    std::optional<GlobalBatch> next() override {
      if (given) return std::nullopt;
      given = true;
      auto batch = std::make_shared<testing_models::RegressionBatch>(1);
      batch->y[0] = static_cast<float>(1000 * ++count);
      const BatchView view = batch->view();
      return GlobalBatch{.view = view, .owner = std::move(batch)};
    }
    int& count;
    bool given = false;
  };
  int evaluations = 0;
};

TEST(EarlyStopping, EndsATrainingAlsoOneThatGoesOnFromACheckpoint) {
  const test::TemporaryFolder folder;
  Worsening straight(folder.path("straight"), 100);
  RegressionSource source(1000);
  // The first evaluation is the best; four more are one too many.
  EXPECT_EQ(straight.trainer.train(source).step, 10);

  Worsening first(folder.path("first"), 6);
  RegressionSource first_source(1000);
  const TrainingSummary half = first.trainer.train(first_source);
  EXPECT_EQ(half.step, 6);
  Worsening second(folder.path("second"), 100);
  second.evaluations = 3;
  second.trainer.resume(half.last_checkpoint);
  RegressionSource second_source(1000, 6);
  EXPECT_EQ(second.trainer.train(second_source).step, 10);
  EXPECT_EQ(second.weights(), straight.weights());
}

TEST(EarlyStopping, IsToldOfAnotherMetricThanTheLossWhatIsBetter) {
  EXPECT_EQ(thrown_by([] { EarlyStopping({.metric = "accuracy"}); }),
            "invalid_argument: say of 'accuracy' whether the higher value is the better one or the lower");
}

TEST(EarlyStopping, TwoOfOneTrainingKeepTheirOwnStates) {
  const test::TemporaryFolder folder;
  const auto stopping = [](Better better, int64_t patience) {
    return std::make_unique<EarlyStopping>(EarlyStoppingOptions{.better = better, .patience = patience});
  };
  Worsening toy(folder.path("toy"), 4);
  EXPECT_THAT(thrown_by([&] { toy.trainer.add_callback(stopping(Better::kLower, 1)); }),
              HasSubstr("there is a callback with the state 'early_stopping(loss, lower)' already"));
  toy.trainer.add_callback(stopping(Better::kHigher, 0));
  RegressionSource source(1000);
  const std::string checkpoint = toy.trainer.train(source).last_checkpoint;
  Worsening again(folder.path("again"), 100);
  again.evaluations = 2;
  again.trainer.add_callback(stopping(Better::kHigher, 0));
  again.trainer.resume(checkpoint);
  RegressionSource rest(1000, 4);
  // Higher losses are an improvement to the second one: the first one ends the training.
  EXPECT_EQ(again.trainer.train(rest).step, 10);
}

TEST(EarlyStopping, GoesOnFromAStateWithoutMetricAndDirectionInItsName) {
  const test::TemporaryFolder folder;
  Worsening first(folder.path("first"), 6);
  RegressionSource source(1000);
  const std::string checkpoint = first.trainer.train(source).last_checkpoint;
  nlohmann::json json = nlohmann::json::parse(test::read_file(checkpoint + "/training.json"));
  json["version"] = 3;
  json["callbacks"] = {{"early_stopping", json.at("callbacks").at("early_stopping(loss, lower)")}};
  test::write_file(checkpoint + "/training.json", json.dump());
  Worsening second(folder.path("second"), 100);
  second.evaluations = 3;
  second.trainer.resume(checkpoint);
  RegressionSource rest(1000, 6);
  const TrainingSummary summary = second.trainer.train(rest);
  EXPECT_EQ(summary.step, 10);
  EXPECT_EQ(read_progress(summary.last_checkpoint).callbacks.size(), 1U);
}

TEST(EarlyStopping, AtTheEndOfAnEpochItEndsTheTrainingBeforeABatchOfTheNextOne) {
  for (const int64_t per_epoch : {4, 5}) {  // in steps of two batches: with and without a short one
    const test::TemporaryFolder folder;
    int evaluations = 0;
    ToyTraining toy({.accumulate = 2,
                     .evaluation = [&] { return std::make_unique<Worsening::Counted>(evaluations); },
                     .checkpoint_folder = folder.path()});
    toy.trainer.add_callback(std::make_unique<EarlyStopping>(EarlyStoppingOptions{.patience = 0}));
    RegressionSource source(1000, 0, per_epoch);
    const TrainingSummary summary = toy.trainer.train(source);
    // The second epoch's evaluation is worse than the first one's.
    EXPECT_EQ(evaluations, 2);
    EXPECT_EQ(toy.trainer.micro_batches(), 2 * per_epoch);
    EXPECT_EQ(summary.step, 2 * ((per_epoch + 1) / 2));
    EXPECT_EQ(summary.whole.epoch, 1);
    EXPECT_FALSE(read_progress(summary.last_checkpoint).in_epoch);
  }
}

}  // namespace
}  // namespace millrace::early_stopping_test
