#include "pipeline/job_node.h"

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace millrace::job_node_test {
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

class JobNodeTest : public ::testing::Test {
 protected:
  // Runs `function` as the body of a node, as stages are polled.
  void start_body(std::function<void()> function) {
    nodes_.push_back(std::make_unique<Executor::Node>(executor_->graph(), tbb::flow::unlimited,
                                                      HandedOver([this, function = std::move(function)](size_t) {
                                                        const Executor::Body mark(*executor_);
                                                        function();
                                                        return tbb::flow::continue_msg();
                                                      })));
    executor_->submit(*nodes_.back(), 0, this);
  }
  void in_body(const std::function<void()>& function) {
    std::atomic<bool> done{false};
    start_body([&] {
      function();
      done = true;
    });
    while (!done) std::this_thread::yield();
  }
  Ref<Job> job() { return Ref<Job>(new CountedJob(*counts_)); }
  void wait_for(const std::atomic<int>& count, int least) {
    while (count < least) std::this_thread::yield();
  }

  // oneTBB looks at a node once more behind its body: not on the stack, which others use again.
  std::unique_ptr<Counts> counts_ = std::make_unique<Counts>();
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<JobNode> node_;
  std::vector<std::unique_ptr<Executor::Node>> nodes_;
};

class JobNodeOfThreads : public JobNodeTest, public ::testing::WithParamInterface<int> {};

TEST_P(JobNodeOfThreads, RunEachJobOnceAndCountIt) {
  const auto statistics = std::make_unique<StageStatistics>();
  executor_ = std::make_unique<Executor>(GetParam(), 1 << 20);
  node_ = std::make_unique<JobNode>(*executor_, 2, statistics.get());
  int given = 0;
  in_body([&] {
    for (int i = 0; i < 500; ++i) given += node_->take(job()) ? 1 : 0;
  });
  wait_for(counts_->gone, 500);
  executor_->stop();
  EXPECT_EQ(counts_->run, given);
  EXPECT_GE(given, 2);
  EXPECT_LE(counts_->most_at_once, 2);
  EXPECT_EQ(statistics->rows, 2 * given);
  EXPECT_EQ(statistics->bytes, 10 * given);
}

INSTANTIATE_TEST_SUITE_P(, JobNodeOfThreads, ::testing::Values(1, 4));

TEST_F(JobNodeTest, RefuseAJobTooManyAndTakeTheNextWhenOneIsDone) {
  counts_->may_end = false;
  executor_ = std::make_unique<Executor>(2, 1 << 20);
  node_ = std::make_unique<JobNode>(*executor_, 2, nullptr);
  std::vector<bool> taken;
  in_body([&] {
    for (int i = 0; i < 3; ++i) taken.push_back(node_->take(job()));
  });
  EXPECT_EQ(taken, (std::vector<bool>{true, true, false}));
  EXPECT_EQ(counts_->gone, 1);
  counts_->may_end = true;
  wait_for(counts_->gone, 3);
  in_body([&] {
    const Ref<Job> next = job();
    while (!node_->take(next)) std::this_thread::yield();
  });
  wait_for(counts_->run, 3);
  executor_->stop();
}

TEST_F(JobNodeTest, JobsThatAStopLeavesAreDropped) {
  executor_ = std::make_unique<Executor>(1, 1 << 20);
  node_ = std::make_unique<JobNode>(*executor_, 4, nullptr);
  std::atomic<bool> given{false};
  std::atomic<bool> may_end{false};
  start_body([&] {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(node_->take(job()));
    given = true;
    while (!may_end) std::this_thread::yield();
  });
  while (!given) std::this_thread::yield();
  std::thread stopper([&] { executor_->stop(); });
  while (!executor_->stopping()) std::this_thread::yield();
  may_end = true;
  stopper.join();
  node_.reset();
  EXPECT_EQ(counts_->run, 0);
  EXPECT_EQ(counts_->gone, 4);
}

}  // namespace
}  // namespace millrace::job_node_test
