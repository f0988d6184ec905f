#include "millrace/pipeline/watch/stall_timer.h"

#include <chrono>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"

namespace millrace::stall_timer_test {
namespace {

using ::testing::HasSubstr;

// A limit of 4 ns: two looks never reach it, as an interval counts as two at most; three do whenever the clock goes on
// between them. What is never still here is never still, whatever happens between looks.
constexpr double kLeast = 1e-9;
constexpr int kMany = 1000;

TEST(StallTimer, IsNeverReachedWhileSomethingMoves) {
  StallTimer still(kLeast, nullptr);
  for (uint64_t moved = 1; moved <= kMany; ++moved) {
    ASSERT_FALSE(still.look(moved));
    ASSERT_FALSE(still.look(moved)) << "counts anew";
  }
}

TEST(StallTimer, IsNeverReachedWhileSomethingMayMoveThatNobodySees) {
  StallTimer still(kLeast, nullptr);
  for (int i = 0; i < kMany; ++i) ASSERT_FALSE(still.look(1, /*may_move=*/true));
  EXPECT_FALSE(still.look(1));
  for (int i = 0; i < kMany; ++i) ASSERT_FALSE(still.look(1, /*may_move=*/true));
  ASSERT_FALSE(still.look(1)) << "counts anew";
  while (!still.look(1)) {
  }
  EXPECT_GE(still.seconds(), kLeast);
}

// As of a process that was stopped.
TEST(StallTimer, CountsALongTimeBetweenTwoLooksAsTwoIntervals) {
  constexpr double kSeconds = 1e-3;
  StallTimer still(kSeconds, nullptr);
  EXPECT_EQ(still.interval(), std::chrono::microseconds(250));
  EXPECT_FALSE(still.look(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  EXPECT_FALSE(still.look(1));
  EXPECT_DOUBLE_EQ(still.seconds(), kSeconds / 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  EXPECT_TRUE(still.look(1));
  EXPECT_DOUBLE_EQ(still.seconds(), kSeconds);
}

TEST(StallTimer, CountsAnewBehindWhatIsTold) {
  const Stall stall{.seconds = 5, .cause = "nobody works", .report = "the report\n"};
  int times = 0;
  StallTimer still(kLeast, [&](const Stall& told) {
    EXPECT_EQ(told.cause, stall.cause);
    ++times;
  });
  for (int i = 1; i <= 3; ++i) {
    while (!still.look(1)) {
    }
    still.tell(stall);
    EXPECT_EQ(times, i);
    EXPECT_EQ(still.seconds(), 0);
    EXPECT_FALSE(still.look(1));
  }
}

TEST(StallTimer, PrintsAndThrowsWhenNothingElseIsAskedFor) {
  StallTimer still(kLeast, nullptr);
  testing::internal::CaptureStderr();
  std::string thrown;
  try {
    still.tell({.seconds = 5, .cause = "nobody works", .report = "the report\n"});
  } catch (const ErrorException& error) {
    EXPECT_EQ(error.error().code, ErrorCode::kStalled);
    thrown = error.what();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "millrace: the report\n");
  EXPECT_THAT(thrown, HasSubstr("nothing has moved for 5.0 s: nobody works"));
}

}  // namespace
}  // namespace millrace::stall_timer_test
