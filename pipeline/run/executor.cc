#include "millrace/pipeline/run/executor.h"

#include <algorithm>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/pipeline/run/worker_arena.h"

namespace millrace {
namespace {

thread_local const Executor* current_executor = nullptr;
// The last one that counted this thread: with one pipeline there is never another.
thread_local uint64_t last_counted_executor = 0;
// Where this thread has the reserved slot.
thread_local const Executor* executor_of_session = nullptr;

uint64_t next_id() {
  static std::atomic<uint64_t> id{0};
  return ++id;
}

// Numbers of threads are never used again, unlike their ids.
uint64_t next_thread_number() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

uint64_t this_thread_number() {
  thread_local const uint64_t number = next_thread_number();
  return number;
}

// Where oneTBB has no memory for a task, or gets no thread, it may have counted the task already: whoever waits for it
// waits forever.
[[noreturn]] void end_process() noexcept {
  try {
    throw std::bad_alloc();
  } catch (...) {
    std::terminate();
  }
}

void put(Executor::Node& node, size_t message) noexcept {
  try {
    node.try_put(message);
  } catch (...) {
    end_process();
  }
}

}  // namespace

int checked_threads(int threads) {
  constexpr int kMostThreads = 1024;
  if (threads < 0 || threads > kMostThreads) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("start: threads is {}, must be between 1 and {}, or 0 for all cores", threads, kMostThreads));
  }
  return threads == 0 ? static_cast<int>(std::max(1U, std::thread::hardware_concurrency())) : threads;
}

Executor::Executor(int threads, int64_t memory_budget, bool has_reserved_slot)
    : threads_(threads),
      has_reserved_slot_(has_reserved_slot),
      id_(next_id()),
      reserved_number_(next_thread_number()),
      memory_(pool_, memory_budget),
      arena_(worker_arena(threads, /*reserved=*/has_reserved_slot ? 1 : 0)) {
  initialize(arena_);
  // A graph runs in the arena it is made in.
  arena_.execute([this] { graph_.emplace(); });
}

Executor::~Executor() { stop(); }

Executor::Body::Body(Executor& executor) : executor_(executor), outer_(current_executor) {
  current_executor = &executor;
  if (last_counted_executor != executor.id_) {
    last_counted_executor = executor.id_;
    executor.count_worker();
  }
}

Executor::Body::~Body() {
  current_executor = outer_;
  handoff_release(&executor_);  // stop() acquires it
}

bool Executor::ArenaSession::begin() {
  try {
    if (group_ == nullptr) group_ = std::make_unique<tbb::task_group>();
    open_ = group_->defer([] {});
    return true;
  } catch (const std::bad_alloc&) {
    // oneTBB counts a task before it has memory for it: the group waits forever now, also when it is destroyed.
    static_cast<void>(group_.release());
    return false;
  }
}

void Executor::ArenaSession::work() {
  struct Mark {
    explicit Mark(const Executor& executor) : outer(std::exchange(executor_of_session, &executor)) {}
    ~Mark() { executor_of_session = outer; }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;
    const Executor* const outer;
  };
  const Mark mark(executor_);
  executor_.arena_.execute([this] { group_->wait(); });
  handoff_acquire(this);
}

void Executor::count_worker() {
  const uint64_t thread = executor_of_session == this ? reserved_number_ : this_thread_number();
  const std::lock_guard lock(workers_mutex_);
  try {
    if (std::find(workers_.begin(), workers_.end(), thread) == workers_.end()) workers_.push_back(thread);
  } catch (const std::bad_alloc&) {  // it is not counted
  }
}

int Executor::distinct_workers() const {
  const std::lock_guard lock(workers_mutex_);
  return static_cast<int>(workers_.size());
}

bool Executor::inside() const { return current_executor == this; }

bool Executor::inside_any() { return current_executor != nullptr; }

void Executor::submit(Node& node, size_t message, void* token) noexcept {
  if (inside()) {
    handoff_release(token);
    put(node, message);
    return;
  }
  submit_last(node, message, token);
}

void Executor::submit_last(Node& node, size_t message, void* token) noexcept {
  // stop() waits for threads outside the arena that came before it set the flag.
  external_submitters_.fetch_add(1);
  if (!stopping_.load()) {
    graph_->reserve_wait();
    handoff_release(token);
    try {
      arena_.enqueue(TbbHandoff([this, &node, message, token] {
        handoff_acquire(token);
        handoff_release(token);
        put(node, message);
        graph_->release_wait();
      }));
    } catch (...) {
      end_process();
    }
  }
  external_submitters_.fetch_sub(1);
}

void Executor::fail() noexcept {
  failed_.store(true);
  if (consumer_ != nullptr) consumer_->wake();
}

void Executor::stop() noexcept {
  stopping_.store(true);
  while (external_submitters_.load() > 0) std::this_thread::yield();
  graph_->cancel();
  graph_->wait_for_all();
  handoff_acquire(this);
  memory_.close();
}

}  // namespace millrace
