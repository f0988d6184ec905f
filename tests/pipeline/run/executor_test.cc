#include "millrace/pipeline/run/executor.h"

#include <atomic>
#include <barrier>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "millrace/pipeline/worker_limit.h"

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

TEST(Executor, CountsWhoeverHasTheSeatAsOne) {
  const WorkerLimit limit(1);
  Executor executor(2, 1 << 20, /*has_reserved_slot=*/true);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::barrier both(2);
  std::atomic<int> done = 0;
  std::deque<Executor::ArenaSession> stays;  // all stay: the last call of `end` may still go on
  Executor::Node node(executor.graph(), tbb::flow::unlimited, TbbHandoff([&](size_t) {
                        handoff_acquire(&executor);
                        const Executor::Body body(executor);
                        both.arrive_and_wait();  // one is of the worker, one of who has the reserved slot
                        const std::lock_guard lock(mutex);
                        threads.insert(std::this_thread::get_id());
                        if (++done % 2 == 0) stays.back().end();
                        return tbb::flow::continue_msg();
                      }));
  // One thread after the other, while those before it live on: ids of threads that are gone are used again.
  const std::function<void(int)> work = [&](int times) {
    ASSERT_TRUE(stays.emplace_back(executor).begin());
    for (int i = 0; i < 2; ++i) executor.submit(node, 0, &executor);
    stays.back().work();
    if (times > 1) std::thread(work, times - 1).join();
  };
  work(3);
  EXPECT_GE(threads.size(), 4U);
  EXPECT_EQ(executor.distinct_workers(), static_cast<int>(threads.size()) - 2) << "three had the reserved slot";
  executor.stop();
}

}  // namespace
}  // namespace millrace::executor_test
