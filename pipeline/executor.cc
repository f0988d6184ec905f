#include "pipeline/executor.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "formats/error.h"

namespace millrace {
namespace {

thread_local const Executor* current_executor = nullptr;
thread_local uint64_t last_counted_executor = 0;

uint64_t next_id() {
  static std::atomic<uint64_t> id{0};
  return ++id;
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

Executor::Executor(int threads) : threads_(threads), id_(next_id()), arena_(threads, /*reserved_for_masters=*/0) {
  // A graph runs in the arena it is made in.
  arena_.execute([this] { graph_.emplace(); });
}

Executor::~Executor() { stop(); }

Executor::Body::Body(Executor& executor) : executor_(executor), outer_(current_executor) {
  current_executor = &executor;
  if (last_counted_executor != executor.id_) {
    last_counted_executor = executor.id_;
    executor.distinct_workers_.fetch_add(1, std::memory_order_relaxed);
  }
}

Executor::Body::~Body() {
  current_executor = outer_;
  handoff_release(&executor_);  // stop() acquires it
}

bool Executor::inside() const { return current_executor == this; }

bool Executor::inside_any() { return current_executor != nullptr; }

void Executor::submit(Node& node, size_t message, void* token) noexcept {
  if (inside()) {
    handoff_release(token);
    node.try_put(message);
    return;
  }
  // stop() waits for strangers that came before it set the flag.
  strangers_submitting_.fetch_add(1);
  if (!stopping_.load()) {
    graph_->reserve_wait();
    handoff_release(token);
    arena_.enqueue(HandedOver([this, &node, message, token] {
      handoff_acquire(token);
      handoff_release(token);
      node.try_put(message);
      graph_->release_wait();
    }));
  }
  strangers_submitting_.fetch_sub(1);
}

void Executor::stop() noexcept {
  stopping_.store(true);
  while (strangers_submitting_.load() > 0) std::this_thread::yield();
  graph_->cancel();
  graph_->wait_for_all();
  handoff_acquire(this);
}

}  // namespace millrace
