#include "millrace/formats/storage/remote/hedge_policy.h"

#include <gtest/gtest.h>

namespace millrace::hedge_policy_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kMiB = 1 << 20;

milliseconds rounded(std::chrono::nanoseconds time) { return std::chrono::round<milliseconds>(time); }

TEST(HedgePolicy, WaitsForAWhileUntilAnswersAreKnown) {
  HedgePolicy policy(0.05);
  for (int i = 0; i < 15; ++i) policy.note(kMiB, milliseconds(100), milliseconds(100));
  EXPECT_EQ(rounded(policy.first_byte_by()), seconds(2));
  EXPECT_EQ(rounded(policy.body_by(kMiB)), seconds(5));
  policy.note(kMiB, milliseconds(100), milliseconds(100));
  EXPECT_EQ(rounded(policy.first_byte_by()), milliseconds(300));
  EXPECT_EQ(rounded(policy.body_by(kMiB)), seconds(1));
  EXPECT_EQ(rounded(policy.body_by(8 * kMiB)), milliseconds(2400));
}

TEST(HedgePolicy, IsNotMovedByAFewThatAreSlow) {
  HedgePolicy policy(0.05);
  for (int i = 0; i < 128; ++i) policy.note(kMiB, milliseconds(i % 32 == 0 ? 9000 : 10), milliseconds(10));
  EXPECT_EQ(rounded(policy.first_byte_by()), milliseconds(200));  // the least
  for (int i = 0; i < 128; ++i) policy.note(kMiB, milliseconds(500), milliseconds(10));
  EXPECT_EQ(rounded(policy.first_byte_by()), milliseconds(1500));  // a store that has become slow
  for (int i = 0; i < 128; ++i) policy.note(kMiB, milliseconds(10), milliseconds(10));
  EXPECT_EQ(rounded(policy.first_byte_by()), milliseconds(200));
  for (int i = 0; i < 128; ++i) policy.note(kMiB, milliseconds(9000), milliseconds(10));
  EXPECT_EQ(rounded(policy.first_byte_by()), milliseconds(5000)) << "the deadline is after 15 s";
}

TEST(HedgePolicy, LearnsNoRateFromSmallAnswers) {
  HedgePolicy policy(0.05);
  for (int i = 0; i < 64; ++i) policy.note(1000, milliseconds(10), milliseconds(10));
  EXPECT_EQ(rounded(policy.body_by(kMiB)), seconds(5));
}

TEST(HedgePolicy, SendsAShareOfThemAndAFewMore) {
  HedgePolicy policy(0.05);
  const auto take_all = [&] {
    int taken = 0;
    while (policy.take()) ++taken;
    return taken;
  };
  EXPECT_EQ(take_all(), 4);
  for (int i = 0; i < 101; ++i) policy.note(kMiB, milliseconds(10), milliseconds(10));
  EXPECT_EQ(take_all(), 5);
  for (int i = 0; i < 10'000; ++i) policy.note(kMiB, milliseconds(10), milliseconds(10));
  EXPECT_EQ(take_all(), 16);
  HedgePolicy none(0);
  EXPECT_FALSE(none.take());
}

}  // namespace
}  // namespace millrace::hedge_policy_test
