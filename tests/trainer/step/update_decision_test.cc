#include "millrace/trainer/step/update_decision.h"

#include <array>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/trainer/step/all_reduce.h"
#include "tests/trainer/toy_models.h"

namespace millrace::update_decision_test {
namespace {

using testing::HasSubstr;
using testing_models::thrown_by;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// "a" of two floats and "b" of three follow the first loss, "c" of one the second.
struct Step {
  explicit Step(const StepGraphOptions& options = {}, bool two_losses = true) {
    layout.add("a", {2});
    layout.add("b", {3});
    if (two_losses) layout.add("c", {1}, 1);
    layout.finish(64);
    gradients = FlatBuffer(layout.size());
    decision.emplace(layout, layout.buckets(), options);
  }
  std::span<float> gradient(std::string_view name) {
    const Parameter& parameter = layout.parameters()[static_cast<size_t>(*layout.find(name))];
    return gradients.span().subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.size));
  }
  DecidedUpdate decide(const StepNumbers& numbers = {.step = 4, .batch = 9, .update = 3}) {
    std::vector<double> squares;
    for (const Bucket& bucket : layout.buckets()) squares.push_back(sum_of_squares(part_of(gradients.span(), bucket)));
    return decision->decide(numbers, 0.5, squares, gradients.data());
  }

  ParameterLayout layout;
  FlatBuffer gradients;
  std::optional<UpdateDecision> decision;
};

StepResult result_of(double sum, double weight, double second_sum = 0, double second_weight = 0) {
  return {.sum_loss = sum, .weight = weight, .more_losses = {{.sum = second_sum, .weight = second_weight}}};
}

TEST(UpdateDecision, DividesEachLossByItsWeightOverAllReplicasAndBatches) {
  Step step;
  step.gradient("a")[1] = 3;
  step.gradient("b")[2] = 4;
  step.gradient("c")[0] = -6;
  step.decision->add(std::array{result_of(1, 2, 10, 1), result_of(2, 3, 20, 1)}, 8, /*more_follow=*/true);
  step.decision->add(std::array{result_of(3, 5, 30, 1), result_of(4, 0, 0, 0)}, 9, /*more_follow=*/false);
  EXPECT_EQ(step.decision->batches(), 2);
  const DecidedUpdate decided = step.decide();
  EXPECT_EQ(decided.not_finite, "");
  EXPECT_EQ(decided.result.sum_loss, 10);
  EXPECT_EQ(decided.result.weight, 10);
  EXPECT_EQ(decided.result.loss(1).sum, 60);
  EXPECT_EQ(decided.loss, 1);
  EXPECT_EQ(decided.clip_scale, 1);
  EXPECT_DOUBLE_EQ(decided.gradient_norm, std::hypot(0.5, 2.0));
  ASSERT_EQ(decided.updates.size(), 2U);
  EXPECT_EQ(decided.updates[0].gradient_scale, 0.1F);
  EXPECT_EQ(decided.updates[1].gradient_scale, static_cast<float>(1 / 3.0));
  EXPECT_EQ(decided.updates[0].number, 3);
  EXPECT_EQ(decided.updates[0].learning_rate, 0.5);

  step.decision->discard();
  step.decision->add(std::array{result_of(2, 1, 0, 1)}, 10, false);
  EXPECT_EQ(step.decide().loss, 2);
  EXPECT_EQ(step.decision->batches(), 1);
}

TEST(UpdateDecision, TakesNoLossAndNoGradientOfAWeightOfZero) {
  Step step;
  step.gradient("a")[0] = 7;
  step.decision->add(std::array{result_of(0, 0), result_of(0, 0)}, 0, false);
  const DecidedUpdate decided = step.decide();
  EXPECT_EQ(decided.not_finite, "");
  EXPECT_EQ(decided.loss, 0);
  EXPECT_EQ(decided.gradient_norm, 0);
  EXPECT_EQ(decided.updates[0].gradient_scale, 0);
}

TEST(UpdateDecision, NamesTheFirstLossThatIsNotFiniteAndTheBatchWhereThereAreSeveral) {
  const std::array broken{result_of(1, 2, 0, 1), result_of(kNan, 3, kNan, 1), result_of(kNan, 1, 0, 1)};
  const std::array good{result_of(1, 1, 1, 1)};
  Step step;
  step.decision->add(broken, 9, false);
  EXPECT_EQ(step.decide().not_finite, "the loss of replica 1 is nan (weight 3)");
  step.decision->discard();
  step.decision->add(good, 7, true);
  step.decision->add(broken, 8, true);
  step.decision->add(good, 9, false);
  EXPECT_EQ(step.decide().not_finite, "the loss of replica 1 in batch 8 is nan (weight 3)");
  step.decision->discard();
  step.decision->add(std::array{result_of(1, 1, 2, std::numeric_limits<double>::infinity())}, 7, true);
  EXPECT_EQ(step.decide().not_finite, "loss 1 of replica 0 in batch 7 is 2 (weight inf)");
}

TEST(UpdateDecision, ALossThatNoParameterFollowsMayBeAnything) {
  Step step({}, /*two_losses=*/false);
  EXPECT_EQ(step.decision->num_losses(), 1U);
  step.decision->add(std::array{result_of(1, 1, kNan, kNan)}, 0, false);
  EXPECT_EQ(step.decide().not_finite, "");
}

TEST(UpdateDecision, NamesTheParameterWhoseGradientIsNotFinite) {
  Step step;
  step.gradient("b")[1] = -std::numeric_limits<float>::infinity();
  step.decision->add(std::array{result_of(1, 1, 1, 1)}, 0, false);
  EXPECT_EQ(step.decide().not_finite, "a gradient of 'b' is not finite");
}

TEST(UpdateDecision, RefusesAGradientThatCannotBeSquared) {
  Step step;
  step.gradient("a")[0] = 3e18F;
  step.decision->add(std::array{result_of(1, 2, 1, 1)}, 0, false);
  EXPECT_EQ(step.decide().not_finite, "the norm of the gradient is 1.5e+18; its square would not be finite");
  step.decision->discard();
  step.decision->add(std::array{result_of(1, 4, 1, 1)}, 0, false);
  EXPECT_EQ(step.decide().not_finite, "");
}

TEST(UpdateDecision, ClipsEachLossByItsOwnNormAndReportsTheNormBefore) {
  Step step({.clipping = Clipping{.norm = 1}});
  step.gradient("a")[0] = 8;
  step.gradient("c")[0] = 0.5;
  step.decision->add(std::array{result_of(1, 2, 1, 1)}, 0, false);
  const DecidedUpdate decided = step.decide();
  EXPECT_EQ(decided.clip_scale, 0.25);
  EXPECT_DOUBLE_EQ(decided.gradient_norm, std::hypot(4, 0.5));
  EXPECT_EQ(decided.updates[0].gradient_scale, 0.125F);
  EXPECT_EQ(decided.updates[1].gradient_scale, 1);
  // An update that is not made clips nothing.
  step.decision->add(std::array{result_of(kNan, 2, 1, 1)}, 0, false);
  EXPECT_EQ(step.decide().clip_scale, 1);
}

TEST(UpdateDecision, TakesTheScaleOfTheLossesOutOfTheGradient) {
  Step step;
  step.gradient("a")[0] = 1024 * 6;
  step.decision->add(std::array{result_of(1, 2, 1, 1)}, 0, false);
  const DecidedUpdate decided = step.decide({.loss_scale = 1024});
  EXPECT_EQ(decided.gradient_norm, 3);
  EXPECT_EQ(decided.updates[0].gradient_scale, 1.0F / 2048);
}

TEST(UpdateDecision, MakesAReplicasGradientItsOwnMeanAndClipsIt) {
  const GradientNormalization means{.mode = Normalization::kSumOfReplicaMeans};
  Step step({.normalization = means});
  EXPECT_TRUE(step.decision->needs_whole_replicas());
  step.gradient("a")[0] = 6;
  step.gradient("c")[0] = 6;
  step.decision->scale_replica(step.gradients.span(), result_of(1, 2, 1, 3), 1);
  EXPECT_EQ(step.gradient("a")[0], 3);
  EXPECT_EQ(step.gradient("c")[0], 2);
  step.decision->scale_replica(step.gradients.span(), result_of(0, 0, 1, 1), 1);
  EXPECT_EQ(step.gradient("a")[0], 0);
  EXPECT_EQ(step.gradient("c")[0], 2);

  // A mean of norm 4 in units of the loss scale, clipped to 1; what is not finite stays so.
  Step clipped({.clipping = Clipping{.norm = 1, .per_replica = true}, .normalization = means});
  clipped.gradient("a")[0] = 8 * 16;
  clipped.gradient("c")[0] = std::numeric_limits<float>::infinity();
  clipped.decision->scale_replica(clipped.gradients.span(), result_of(1, 2, 1, 1), 16);
  EXPECT_EQ(clipped.gradient("a")[0], 16);
  EXPECT_TRUE(std::isinf(clipped.gradient("c")[0]));
  EXPECT_FALSE(Step().decision->needs_whole_replicas());
}

TEST(UpdateDecision, RefusesWhatCannotWork) {
  EXPECT_EQ(thrown_by([] { Step step({.clipping = Clipping{.norm = 0}}); }),
            "invalid_argument: clipping to a norm of 0; more than 0 is needed");
  EXPECT_EQ(thrown_by([] { Step step({.normalization = {.scale = kNan}}); }),
            "invalid_argument: normalization has a scale of nan; more than 0 is needed");
  const Step step;
  EXPECT_EQ(thrown_by([&] { step.decision->check_losses({.sum_loss = 1, .weight = 1}); }),
            "invalid_argument: the model gave 1 losses; its parameters follow 2");
  step.decision->check_losses(result_of(1, 1));
}

}  // namespace
}  // namespace millrace::update_decision_test
