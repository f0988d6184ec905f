#include "pipeline/metered_stage.h"

#include <chrono>
#include <utility>

namespace millrace {
namespace {

// The stage around this one on the call stack. A poll never leaves its thread.
thread_local StageStatistics* polling = nullptr;

}  // namespace

Poll MeteredStage::next(Block& out) {
  StageStatistics* outer = std::exchange(polling, &statistics_);
  const auto begin = std::chrono::steady_clock::now();
  const Poll poll = stage_->next(out);
  const auto elapsed = std::chrono::steady_clock::now() - begin;
  polling = outer;
  const int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count();
  if (outer != nullptr) outer->input_ns.fetch_add(ns, std::memory_order_relaxed);
  const bool delivered = poll == Poll::kBlock;
  statistics_.add(delivered ? out.num_rows() : 0, delivered ? out.byte_size() : 0, ns);
  return poll;
}

}  // namespace millrace
