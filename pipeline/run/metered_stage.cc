#include "millrace/pipeline/run/metered_stage.h"

#include <utility>

#include "millrace/formats/error.h"
#include "millrace/pipeline/run/activity.h"
#include "millrace/pipeline/run/poll_budget.h"

namespace millrace {
namespace {

// The stage around this one on the call stack. A poll never leaves its thread.
thread_local StageStatistics* polling = nullptr;

}  // namespace

Poll MeteredStage::next(Block& out) {
  if (!PollBudget::consume()) return Poll::kPending;
  try {
    return counts_ ? count_next(out) : stage_->next(out);
  } catch (...) {
    // The innermost stage is the one that is named, without its number in the plan.
    const std::string& name = statistics_.name;
    throw ErrorException(current_exception_as_error(std::string_view(name).substr(name.find(':') + 1)));
  }
}

Poll MeteredStage::count_next(Block& out) {
  StageStatistics* outer = std::exchange(polling, &statistics_);
  Activity* const activity = Activity::of_this_thread();
  const int64_t begin = now_ns();
  if (activity != nullptr) activity->enter(&statistics_, begin);
  Poll poll = Poll::kEnd;
  try {
    poll = stage_->next(out);
  } catch (...) {
    polling = outer;
    if (activity != nullptr) activity->enter(outer, now_ns());
    throw;
  }
  const int64_t end = now_ns();
  const int64_t ns = end - begin;
  polling = outer;
  if (activity != nullptr) activity->enter(outer, end);
  if (outer != nullptr) outer->input_ns.fetch_add(ns, std::memory_order_relaxed);
  statistics_.inclusive_ns.fetch_add(ns, std::memory_order_relaxed);
  statistics_.trace.span(begin, end);
  if (poll == Poll::kBlock) statistics_.add(out);
  return poll;
}

}  // namespace millrace
