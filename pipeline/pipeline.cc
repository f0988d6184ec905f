#include "pipeline/pipeline.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include <fmt/format.h>

#include "pipeline/executor.h"
#include "pipeline/io_threads.h"
#include "pipeline/lowering.h"

namespace millrace {
namespace {

constexpr int kIoThreads = 2;

/// Where the caller of `next()` sleeps.
class ConsumerWaker final : public Waker {
 public:
  void wake() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    changed_.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return woken_; });
    woken_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
};

}  // namespace

class Pipeline::Impl {
 public:
  using Clock = std::chrono::steady_clock;

  Impl(PlanNodePtr plan, const StartOptions& options)
      : io_threads_(kIoThreads),
        storage_(options.storage != nullptr ? options.storage : std::make_shared<LocalStorage>(io_threads_)),
        executor_(checked_threads(options.threads)),
        plan_(std::move(plan)),
        lowered_(executor_, plan_, {.ordered = options.ordered}),
        started_(Clock::now()) {
    reader_ = lowered_.start({.pool = executor_.pool(),
                              .waker = waker_,
                              .iteration = {},
                              .lanes = inline_lanes_,
                              .storage = storage_.get(),
                              .shard_names = std::make_shared<ShardNames>()});
  }

  // The order matters: nobody may wake a node any more, then no body may run, then stages go, then nodes, then the
  // graph.
  ~Impl() {
    executor_.stop();
    reader_.reset();
    lowered_.drop_chains();
    io_threads_.stop();
  }

  std::optional<Batch> next() {
    if (Executor::inside_any()) {
      throw ErrorException(
          ErrorCode::kInvalidArgument,
          "Pipeline::next() was called inside a function that a pipeline runs; it could wait for itself");
    }
    if (ended_) return std::nullopt;
    if (taken_ == block_.num_elements() && !refill()) {
      ended_ = true;
      return std::nullopt;
    }
    const size_t element = taken_++;
    if (!block_.errors().empty()) {
      if (const auto error = block_.error_at(element)) {
        ended_ = true;
        block_ = Block();
        taken_ = 0;
        throw PipelineError(*error);
      }
    }
    if (block_.num_elements() == 1) {
      taken_ = 0;
      return Batch(std::exchange(block_, Block()));
    }
    return Batch(block_.slice(element, 1));
  }

  Statistics stats() const {
    Statistics statistics;
    statistics.stages = lowered_.report();
    statistics.wall_seconds = std::chrono::duration<double>(Clock::now() - started_).count();
    statistics.consumer_waiting_seconds = 1e-9 * static_cast<double>(waited_ns_.load(std::memory_order_relaxed));
    statistics.threads = executor_.threads();
    statistics.distinct_workers = executor_.distinct_workers();
    statistics.buffer_bytes = executor_.pool().bytes_in_use();
    statistics.fresh_buffers = executor_.pool().fresh_allocations();
    return statistics;
  }

 private:
  bool refill() {
    block_ = Block();
    taken_ = 0;
    while (true) {
      const Poll poll = reader_->next(block_);
      if (poll == Poll::kBlock) return true;
      if (poll == Poll::kEnd) return false;
      const auto begin = Clock::now();
      waker_.wait();
      waited_ns_.fetch_add(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count(),
                           std::memory_order_relaxed);
    }
  }

  IoThreads io_threads_;
  std::shared_ptr<Storage> storage_;
  ConsumerWaker waker_;
  InlineLanes inline_lanes_;
  Executor executor_;
  PlanNodePtr plan_;
  LoweredPlan lowered_;
  const Clock::time_point started_;
  std::unique_ptr<Stage> reader_;
  Block block_;
  size_t taken_ = 0;
  bool ended_ = false;
  std::atomic<int64_t> waited_ns_{0};
};

Pipeline::Pipeline(std::shared_ptr<const PlanNode> plan, const StartOptions& options)
    : impl_(std::make_unique<Impl>(std::move(plan), options)) {}
Pipeline::~Pipeline() = default;
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&&) noexcept = default;

std::optional<Batch> Pipeline::next() { return impl_->next(); }

Statistics Pipeline::stats() const { return impl_->stats(); }

}  // namespace millrace
