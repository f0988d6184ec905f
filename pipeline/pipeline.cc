#include "pipeline/pipeline.h"

#include <atomic>
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
  Impl(PlanNodePtr plan, const StartOptions& options)
      : io_threads_(kIoThreads),
        storage_(options.storage != nullptr ? options.storage : std::make_shared<LocalStorage>(io_threads_)),
        executor_(checked_threads(options.threads)),
        plan_(std::move(plan)),
        lowered_(executor_, plan_, {.ordered = options.ordered}),
        started_ns_(now_ns()) {
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
    // The ended waits first: one that ends in between is missed and not counted twice.
    int64_t waited = waited_ns_.load();
    if (const int64_t since = waiting_since_ns_.load(); since > 0) waited += now_ns() - since;
    statistics.wall_seconds = 1e-9 * static_cast<double>(now_ns() - started_ns_);
    statistics.consumer_waiting_seconds = 1e-9 * static_cast<double>(waited);
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
      const int64_t begin = now_ns();
      waiting_since_ns_.store(begin);
      waker_.wait();
      waiting_since_ns_.store(0);
      waited_ns_.fetch_add(now_ns() - begin);
    }
  }

  IoThreads io_threads_;
  std::shared_ptr<Storage> storage_;
  ConsumerWaker waker_;
  InlineLanes inline_lanes_;
  Executor executor_;
  PlanNodePtr plan_;
  LoweredPlan lowered_;
  const int64_t started_ns_;
  std::unique_ptr<Stage> reader_;
  Block block_;
  size_t taken_ = 0;
  bool ended_ = false;
  std::atomic<int64_t> waited_ns_{0};         // in waits that have ended
  std::atomic<int64_t> waiting_since_ns_{0};  // begin of the wait that goes on; 0: none
};

Pipeline::Pipeline(std::shared_ptr<const PlanNode> plan, const StartOptions& options)
    : impl_(std::make_unique<Impl>(std::move(plan), options)) {}
Pipeline::~Pipeline() = default;
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&&) noexcept = default;

std::optional<Batch> Pipeline::next() { return impl_->next(); }

Statistics Pipeline::stats() const { return impl_->stats(); }

}  // namespace millrace
