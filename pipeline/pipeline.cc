#include "millrace/pipeline/pipeline.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include <fmt/format.h>

#include "millrace/formats/storage/remote/disk_cache.h"
#include "millrace/formats/storage/remote/io_threads.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/pipeline/plan/plan_digest.h"
#include "millrace/pipeline/run/consumer_waiter.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/run/lowered_plan.h"
#include "millrace/pipeline/run/output_thread.h"
#include "millrace/pipeline/watch/file_versions.h"
#include "millrace/pipeline/watch/shard_digest_reader.h"
#include "millrace/pipeline/watch/traced_storage.h"
#include "millrace/pipeline/watch/watchdog.h"
#include "millrace/pipeline/watch/watched_storage.h"

namespace millrace {
namespace {

struct Needs {
  int64_t bytes = 0;
  std::string text;     // of which operators
  int64_t of_maps = 0;  // of the largest element of the maps at the end, which is in `bytes`

  void add(std::string_view name, int64_t needed) {
    if (needed == 0) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, needed);
    if (__builtin_add_overflow(bytes, needed, &bytes)) bytes = INT64_MAX;
  }
  void add(const Needs& other) {
    if (other.bytes == 0) return;
    text += (text.empty() ? "" : ", ") + other.text;
    if (__builtin_add_overflow(bytes, other.bytes, &bytes)) bytes = INT64_MAX;
  }
};

Needs needs_of(const PlanNode& plan) {
  Needs needs;
  const bool one_after_the_other = plan.op->traits().opens_one_input;
  std::vector<Cardinality> cardinalities;
  int64_t of_maps = 0;
  for (const PlanNodePtr& input : plan.inputs) {
    cardinalities.push_back(certain_cardinality(*input));
    Needs of_input = needs_of(*input);
    of_maps = of_input.of_maps;
    if (!one_after_the_other) {
      needs.add(of_input);
    } else if (of_input.bytes > needs.bytes) {
      needs = std::move(of_input);
    }
  }
  int64_t own = plan.op->memory_needed(cardinalities);
  needs.of_maps = 0;
  if (as_map(plan) != nullptr) {
    // Maps that follow each other pass on one element, mostly the same values.
    needs.of_maps = std::max(own, of_maps);
    own = needs.of_maps - of_maps;
  }
  needs.add(plan.op->name(), own);
  return needs;
}

// What is known to be too much fails before anything is read.
void check_memory(const PlanNode& plan, int64_t budget) {
  const Needs needs = needs_of(plan);
  if (needs.bytes <= budget) return;
  throw ErrorException(
      ErrorCode::kMemoryBudget,
      fmt::format("at least {} bytes are needed ({}), the memory budget is {}", needs.bytes, needs.text, budget));
}

bool is_nonblocking(const PlanNode& plan) {
  return plan.op->traits().is_nonblocking &&
         std::all_of(plan.inputs.begin(), plan.inputs.end(),
                     [](const PlanNodePtr& input) { return is_nonblocking(*input); });
}

// Where the caller waits it may do the work of one of several threads, unless a function or a storage of its own could
// wait for what it holds.
bool may_work(const PlanNode& plan, const StartOptions& options) {
  return checked_threads(options.threads) > 1 && options.storage == nullptr && is_nonblocking(plan);
}

std::string find_checkpoint_blocker(const PlanNode& plan) {
  for (const PlanNodePtr& input : plan.inputs) {
    if (std::string why = find_checkpoint_blocker(*input); !why.empty()) return why;
  }
  const std::string_view why = checkpoint_blocker(plan);
  return why.empty() ? "" : fmt::format("{}: {}", plan.op->name(), why);
}

}  // namespace

Batch::Batch(Block element) : element_(std::move(element)) {
  if (element_.num_elements() != 1) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("a batch is one element, not a block of {}", element_.num_elements()));
  }
}

void Batch::refuse_type(std::string_view feature, DType dtype) const {
  throw ErrorException(ErrorCode::kInvalidArgument,
                       fmt::format("feature '{}' is {}, and was read as {}", feature,
                                   to_string(element_.column(feature).dtype()), to_string(dtype)));
}

class Pipeline::Impl {
 public:
  Impl(PlanNodePtr plan, const PlanNode& written, const StartOptions& options, const HelpingPolicy& helping_policy)
      : storage_(storage_of(options)),
        executor_(checked_threads(options.threads), checked_memory_budget(options.memory_budget),
                  /*has_reserved_slot=*/may_work(*plan, options)),
        plan_(std::move(plan)),
        trace_(options.trace),
        lowered_(executor_, plan_,
                 {.ordered = options.ordered, .statistics = options.statistics, .trace = trace_.get()}),
        plan_digest_(std::make_shared<const PlanDigest>(digest_of(written))),
        shard_digest_(std::make_shared<ShardDigestReader>(shard_paths(written), options.storage, file_versions_,
                                                          options.watchdog, options.on_stall)),
        checkpoint_blocker_(options.ordered ? find_checkpoint_blocker(written)
                                            : "the pipeline runs with ordered = false"),
        on_skip_(options.on_skip),
        started_ns_(now_ns()) {
    disk_.ordered = options.ordered;
    storage_ = std::make_shared<VersionCheckedStorage>(std::move(storage_), file_versions_);
    if (!options.statistics && (options.watchdog != 0 || trace_ != nullptr)) {
      throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("start: without statistics there is no {}",
                                                                    trace_ != nullptr ? "trace" : "watchdog"));
    }
    if (options.watchdog != 0) {
      auto watched = std::make_shared<WatchedStorage>(storage_);
      watchdog_.emplace(options.watchdog, options.on_stall, lowered_, *watched, output_thread_, executor_.threads());
      storage_ = std::move(watched);
    }
    if (trace_ != nullptr) storage_ = std::make_shared<TracedStorage>(storage_, trace_);
    check_memory(written, executor_.memory().bytes());
    if (options.state) {
      if (!checkpoint_blocker_.empty()) refuse_state("a state cannot be used");
      options.state->check(*plan_digest_, *shard_digest_);
      place_ = options.state->place();
      num_delivered_ = options.state->num_delivered();
      skips_.resume(options.state->skipped());
    }
    Preparation with{.storage = *storage_, .most_bytes = executor_.memory().bytes() / 2};
    if (watchdog_) {
      with.wait.poll_interval = watchdog_->interval();
      with.wait.on_poll = [this] { watchdog_->look_at_start(started_ns_); };
    }
    keep_for_all_runs(lowered_.prepare(with));
    if (executor_.has_reserved_slot()) {
      ConsumerWaiter::ReservedSlot::Polling polling;
      if (watchdog_) polling = {watchdog_->interval(), [this] { watchdog_->look(waiting_since_ns_.load()); }};
      reserved_slot_.emplace(waker_, executor_, std::move(polling), helping_policy);
    }
  }

  // Apart from the constructor: when something is thrown here, nodes run already.
  void begin() {
    executor_.set_consumer(waker_);
    const OpenStage start = [this](const StageContext& context) { return lowered_.start(context); };
    reader_ = open_at(start,
                      {.pool = executor_.pool(),
                       .waker = waker_,
                       .iteration = {},
                       .lanes = inline_lanes_,
                       .storage = storage_.get(),
                       .shard_names = std::make_shared<ShardNames>(),
                       .disk = &disk_},
                      place_);
  }

  // The order matters: nobody may wake a node any more, then no body may run, then stages go, then nodes, then the
  // graph.
  ~Impl() {
    reserved_slot_.reset();
    executor_.stop();
    reader_.reset();
    lowered_.drop_chains();
    output_thread_.stop();
    io_threads_.stop();
    lowered_.warn_of_unfinished();
  }

  std::optional<Batch> next() {
    if (Executor::inside_any()) {
      throw ErrorException(
          ErrorCode::kInvalidArgument,
          "Pipeline::next() was called inside a function that a pipeline runs; it could wait for itself");
    }
    if (ended_) return std::nullopt;
    size_t element = 0;
    while (true) {
      if (taken_ == block_.num_elements() && !refill()) {
        ended_ = true;
        return std::nullopt;
      }
      element = taken_++;
      if (block_.errors().empty()) break;
      if (const auto error = block_.error_at(element)) {
        if (error->skipped != nullptr) {
          ++place_.skip;
          skips_.add(*error->skipped);
          if (on_skip_) on_skip_(*error->skipped);
          continue;
        }
        ended_ = true;
        block_ = Block();
        taken_ = 0;
        throw PipelineError(*error);
      }
      break;
    }
    ++place_.skip;
    ++num_delivered_;
    if (block_.num_elements() == 1) {
      taken_ = 0;
      return Batch(std::exchange(block_, Block()));
    }
    return Batch(block_.slice(element, 1));
  }

  PipelineState save() const {
    if (!checkpoint_blocker_.empty()) refuse_state("the pipeline cannot be saved");
    return {place_, num_delivered_, skips_.counts(), plan_digest_, shard_digest_};
  }

  SkipReport skipped() const { return skips_.report(); }

  bool endless() const { return certain_cardinality(*plan_).is_infinite(); }

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
    statistics.peak_buffer_bytes = executor_.pool().peak_bytes_in_use();
    statistics.memory_budget = executor_.memory().bytes();
    statistics.fresh_buffers = executor_.pool().fresh_allocations();
    statistics.skipped = skips_.counts();
    return statistics;
  }

 private:
  [[noreturn]] void refuse_state(std::string_view what) const {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{}: {}", what, checkpoint_blocker_));
  }

  // What operators keep from the start to the end is no room for buffers.
  void keep_for_all_runs(int64_t bytes) {
    const int64_t budget = executor_.memory().bytes();
    if (bytes > budget / 2) {
      throw ErrorException(
          ErrorCode::kMemoryBudget,
          fmt::format("{} bytes are kept for the whole run, more than half of the memory budget of {}", bytes, budget));
    }
    executor_.memory().reserve_anyway(bytes);
  }

  bool refill() {
    block_ = Block();
    taken_ = 0;
    while (true) {
      const Poll poll = reader_->next(block_);
      if (executor_.has_failed()) {
        ended_ = true;
        block_ = Block();
        throw PipelineError(
            {.code = ErrorCode::kOutOfMemory, .message = "the system has no more memory, not even for an error"});
      }
      if (poll == Poll::kBlock) {
        place_ = block_.cursor;
        return true;
      }
      if (poll == Poll::kEnd) return false;
      wait();
    }
  }

  void wait() {
    struct Timed {
      explicit Timed(Impl& of) : impl(of) { impl.waiting_since_ns_.store(begin); }
      ~Timed() {
        impl.waiting_since_ns_.store(0);
        const int64_t end = now_ns();
        impl.waited_ns_.fetch_add(end - begin);
        impl.waits_.span(begin, end);
      }
      Timed(const Timed&) = delete;
      Timed& operator=(const Timed&) = delete;
      Impl& impl;
      const int64_t begin = now_ns();
    };
    const Timed timed(*this);
    if (!watchdog_) return waker_.wait();
    while (!waker_.wait_for(watchdog_->interval())) watchdog_->look(timed.begin);
  }

  std::shared_ptr<Storage> storage_of(const StartOptions& options) {
    const DiskCacheOptions& cache = options.disk_cache;
    if (cache.folder.empty() && cache.bytes != 0) {
      throw ErrorException(ErrorCode::kInvalidArgument, "start: disk_cache has bytes and no folder");
    }
    if (options.storage == nullptr) {
      return std::make_shared<RoutedStorage>(io_threads_, cache.folder.empty() ? nullptr : DiskCache::open(cache));
    }
    if (cache.folder.empty()) return options.storage;
    throw ErrorException(ErrorCode::kInvalidArgument, "start: disk_cache is of the default storage alone");
  }

  IoThreads io_threads_;
  OutputThread output_thread_;
  RoutedStorage own_storage_{io_threads_};  // of its own files, wherever its sources read
  LocalDisk disk_{own_storage_, output_thread_};
  const std::shared_ptr<FileVersions> file_versions_ = std::make_shared<FileVersions>();
  std::shared_ptr<Storage> storage_;
  ConsumerWaiter waker_;
  InlineLanes inline_lanes_;
  Executor executor_;
  PlanNodePtr plan_;
  const std::shared_ptr<Trace> trace_;
  const TraceName waits_{trace_.get(), "next() waits"};
  LoweredPlan lowered_;
  const std::shared_ptr<const PlanDigest> plan_digest_;
  const std::shared_ptr<ShardDigestReader> shard_digest_;
  const std::string checkpoint_blocker_;  // why it cannot be saved; empty: it can
  std::optional<Watchdog> watchdog_;
  const std::function<void(const SkippedRegion&)> on_skip_;
  SkipLedger skips_;
  const int64_t started_ns_;
  Cursor place_;  // of the next element
  int64_t num_delivered_ = 0;
  std::unique_ptr<Stage> reader_;
  Block block_;
  size_t taken_ = 0;
  bool ended_ = false;
  std::atomic<int64_t> waited_ns_{0};         // in waits that have ended
  std::atomic<int64_t> waiting_since_ns_{0};  // begin of the wait that goes on; 0: none
  std::optional<ConsumerWaiter::ReservedSlot> reserved_slot_;
};

Pipeline::Pipeline(std::shared_ptr<const PlanNode> plan, const PlanNode& written, const StartOptions& options)
    : Pipeline(std::move(plan), written, options, HelpingPolicy()) {}
Pipeline::Pipeline(std::shared_ptr<const PlanNode> plan, const PlanNode& written, const StartOptions& options,
                   const HelpingPolicy& helping_policy)
    : impl_(std::make_unique<Impl>(std::move(plan), written, options, helping_policy)) {
  impl_->begin();
}
Pipeline::~Pipeline() = default;
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&&) noexcept = default;

std::optional<Batch> Pipeline::next() { return impl_->next(); }

PipelineState Pipeline::save() const { return impl_->save(); }

bool Pipeline::endless() const { return impl_->endless(); }

Statistics Pipeline::stats() const { return impl_->stats(); }

SkipReport Pipeline::skipped() const { return impl_->skipped(); }

}  // namespace millrace
