#include "millrace/formats/storage/remote/retry.h"

#include <gtest/gtest.h>

namespace millrace::retry_test {
namespace {

TEST(RetryBudget, GivesWhatItHasAndGetsItBackWithSuccess) {
  RetryBudget budget;
  int taken = 0;
  while (budget.take(RetryBudget::kOfTransport)) ++taken;
  EXPECT_EQ(taken, RetryBudget::kMost / RetryBudget::kOfTransport);
  EXPECT_FALSE(budget.take(1));
  for (int i = 0; i < RetryBudget::kOfRetry; ++i) budget.give(RetryBudget::kOfSuccess);
  EXPECT_TRUE(budget.take(RetryBudget::kOfRetry));
  EXPECT_FALSE(budget.take(1));
  budget.give(10 * RetryBudget::kMost);
  EXPECT_FALSE(budget.take(RetryBudget::kMost + 1)) << "no more than there was";
  EXPECT_TRUE(budget.take(RetryBudget::kMost));
}

TEST(RetryBudget, DrawsTimesBetweenNothingAndTheLongest) {
  RetryBudget budget;
  const std::chrono::nanoseconds longest{1000};
  bool has_short = false;
  bool has_long = false;
  for (int i = 0; i < 1000; ++i) {
    const std::chrono::nanoseconds drawn = budget.jitter(longest);
    ASSERT_GE(drawn.count(), 0);
    ASSERT_LE(drawn, longest);
    has_short = has_short || drawn < longest / 4;
    has_long = has_long || drawn > 3 * longest / 4;
  }
  EXPECT_TRUE(has_short && has_long);
  EXPECT_EQ(budget.jitter(std::chrono::nanoseconds(0)).count(), 0);
}

}  // namespace
}  // namespace millrace::retry_test
