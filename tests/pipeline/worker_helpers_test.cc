#include "pipeline/worker_helpers.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace millrace {
namespace {

struct Counts {
  std::atomic<int> run{0};
  std::atomic<int> at_once{0};
  std::atomic<int> most_at_once{0};
  std::atomic<int> gone{0};
  std::atomic<bool> may_end{true};
};

class CountedJob final : public Job {
 public:
  explicit CountedJob(Counts& counts) : counts_(counts) {}
  Done run() noexcept override {
    const int now = ++counts_.at_once;
    int most = counts_.most_at_once.load();
    while (now > most && !counts_.most_at_once.compare_exchange_weak(most, now)) {
    }
    while (!counts_.may_end) std::this_thread::yield();
    --counts_.at_once;
    ++counts_.run;
    return {.rows = 2, .bytes = 10};
  }

 private:
  void release() noexcept override {
    ++counts_.gone;
    delete this;
  }
  Counts& counts_;
};

// Runs `function` as the body of a node, as stages are polled.
template <typename Function>
class InBody {
 public:
  InBody(Executor& executor, Function function)
      : node_(executor.graph(), tbb::flow::unlimited, [&executor, this, function](size_t) {
          const Executor::Body mark(executor);
          function();
          done_ = true;
          return tbb::flow::continue_msg();
        }) {
    executor.submit(node_, 0, this);
  }
  void wait() const {
    while (!done_) std::this_thread::yield();
  }

 private:
  std::atomic<bool> done_{false};
  Executor::Node node_;
};

TEST(WorkerHelpers, RunEachJobOnceAndCountIt) {
  for (const int threads : {1, 4}) {
    Counts counts;
    StageStatistics statistics;
    Executor executor(threads, 1 << 20);
    WorkerHelpers helpers(executor, 3, &statistics);
    int given = 0;
    int refused = 0;
    const InBody body(executor, [&] {
      for (int i = 0; i < 500; ++i) helpers.help(Ref<Job>(new CountedJob(counts))) ? ++given : ++refused;
    });
    body.wait();
    while (counts.gone < 500) std::this_thread::yield();
    executor.stop();
    EXPECT_EQ(counts.run, given);
    EXPECT_GE(given, 3);
    EXPECT_LE(counts.most_at_once, 3);
    EXPECT_EQ(statistics.rows, 2 * given);
    EXPECT_EQ(statistics.bytes, 10 * given);
  }
}

TEST(WorkerHelpers, RefuseAJobTooManyAndTakeTheNextWhenOneIsDone) {
  Counts counts;
  counts.may_end = false;
  Executor executor(2, 1 << 20);
  WorkerHelpers helpers(executor, 2, nullptr);
  std::vector<bool> taken;
  const InBody body(executor, [&] {
    for (int i = 0; i < 3; ++i) taken.push_back(helpers.help(Ref<Job>(new CountedJob(counts))));
  });
  body.wait();
  EXPECT_EQ(taken, (std::vector<bool>{true, true, false}));
  EXPECT_EQ(counts.gone, 1);
  counts.may_end = true;
  while (counts.gone < 3) std::this_thread::yield();
  const InBody later(executor, [&] {
    while (!helpers.help(Ref<Job>(new CountedJob(counts)))) std::this_thread::yield();
  });
  later.wait();
  while (counts.run < 3) std::this_thread::yield();
  executor.stop();
}

TEST(WorkerHelpers, JobsThatAStopLeavesAreDropped) {
  Counts counts;
  Executor executor(1, 1 << 20);
  WorkerHelpers helpers(executor, 4, nullptr);
  std::atomic<bool> given{false};
  std::atomic<bool> may_end{false};
  const InBody body(executor, [&] {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(helpers.help(Ref<Job>(new CountedJob(counts))));
    given = true;
    while (!may_end) std::this_thread::yield();
  });
  while (!given) std::this_thread::yield();
  std::thread stopper([&] { executor.stop(); });
  while (!executor.stopping()) std::this_thread::yield();
  may_end = true;
  stopper.join();
  helpers.drop_jobs();
  EXPECT_EQ(counts.run, 0);
  EXPECT_EQ(counts.gone, 4);
}

}  // namespace
}  // namespace millrace
