// Against the trajectories of torch.optim, Keras and the published code: 20 updates of a scalar and of five tensors, in
// every rule.
#include <cmath>

#include <gtest/gtest.h>

#include "formats/error.h"
#include "tests/trainer/optimizers/golden_updates.h"
#include "trainer/optimizers/adam.h"
#include "trainer/optimizers/lamb.h"
#include "trainer/optimizers/radam.h"
#include "trainer/optimizers/sgd.h"

namespace millrace {
namespace {

constexpr const char* kFile = MILLRACE_TEST_DATA "/trainer/optimizers.json";

void expect_all_pass(const test::GoldenReport& report, size_t number) {
  EXPECT_EQ(report.cases.size(), number);
  for (const auto& golden : report.cases) EXPECT_EQ(golden.failure, "") << golden.name;
}

TEST(Optimizers, MatchTheTrajectoriesOfTheOriginals) { expect_all_pass(test::check_optimizers(kFile), 2 * 17); }

TEST(Optimizers, ClipAndRectifyAsTheOriginals) {
  const test::GoldenReport report = test::check_optimizer_formulas(kFile);
  EXPECT_GE(report.cases.size(), 4U);
  EXPECT_EQ(report.failed(), 0);
}

TEST(Optimizers, RefuseOptionsOutOfRangeAndBadPatterns) {
  ParameterLayout layout;
  layout.add("w", {1});
  layout.finish();
  EXPECT_THROW(Sgd({.momentum = 1}), ErrorException);
  EXPECT_THROW(Adam(layout, {.beta1 = 1}), ErrorException);
  EXPECT_THROW(Adam(layout, {.epsilon = 0}), ErrorException);
  EXPECT_THROW(Adam(layout, adamw(-0.1)), ErrorException);
  EXPECT_THROW(Adam(layout, adamw(0.1, "(")), ErrorException);
  EXPECT_THROW(Radam(layout, {.beta2 = 2}), ErrorException);
  EXPECT_THROW(Lamb(layout, {.weight_decay = std::nan("")}), ErrorException);
}

}  // namespace
}  // namespace millrace
