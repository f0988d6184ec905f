#include "pipeline/executor.h"

#include <thread>

#include <gtest/gtest.h>

namespace millrace::executor_test {
namespace {

TEST(Executor, CountsAThreadOnceThoughItWorksForOthersInBetween) {
  Executor first(1, 1 << 20);
  Executor second(1, 1 << 20);
  const auto work_in_turns = [&] {
    for (int i = 0; i < 10; ++i) {
      { const Executor::Body body(first); }
      { const Executor::Body body(second); }
    }
  };
  work_in_turns();
  EXPECT_EQ(first.distinct_workers(), 1);
  EXPECT_EQ(second.distinct_workers(), 1);
  for (int i = 0; i < 3; ++i) std::thread(work_in_turns).join();
  EXPECT_EQ(first.distinct_workers(), 4) << "a thread that is gone and the next one are two";
  EXPECT_EQ(second.distinct_workers(), 4);
}

}  // namespace
}  // namespace millrace::executor_test
