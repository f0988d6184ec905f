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

// By the clock of the server where it says what that shows.
TEST(RetryAfter, IsANumberOfSecondsOrADate) {
  using std::chrono::seconds;
  const auto now = std::chrono::sys_days(std::chrono::year(2026) / 11 / 28) + seconds(12 * 3600);
  const auto asked = [&](const char* after, const char* date = nullptr) {
    HttpHead head{.status = 503};
    if (after != nullptr) head.headers.add("retry-after", after);
    if (date != nullptr) head.headers.add("date", date);
    return retry_after(head, now);
  };
  EXPECT_EQ(asked("0"), seconds(0));
  EXPECT_EQ(asked("20", "Sat, 28 Nov 2026 11:00:00 GMT"), seconds(20));
  EXPECT_EQ(asked("86400"), seconds(3600));
  EXPECT_EQ(asked("9223372036854775807"), seconds(3600));
  EXPECT_EQ(asked("Sat, 28 Nov 2026 12:00:20 GMT"), seconds(20));
  EXPECT_EQ(asked("Sat, 28 Nov 2026 11:59:00 GMT"), seconds(0)) << "it has passed";
  EXPECT_EQ(asked("Sun, 29 Nov 2026 12:00:00 GMT"), seconds(3600));
  EXPECT_EQ(asked("Sat, 28 Nov 2026 15:00:20 GMT", "Sat, 28 Nov 2026 15:00:00 GMT"), seconds(20));
  EXPECT_EQ(asked("Sat, 28 Nov 2026 12:00:20 GMT", "whenever"), seconds(20));
  for (const char* none :
       {static_cast<const char*>(nullptr), "", "soon", "-5", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"}) {
    EXPECT_FALSE(asked(none)) << (none == nullptr ? "none" : none);
  }
}

}  // namespace
}  // namespace millrace::retry_test
