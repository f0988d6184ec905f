#include "millrace/trainer/step/step_watchdog.h"

#include <cstdio>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

double seconds_since(int64_t then_ns, int64_t now_ns) { return static_cast<double>(now_ns - then_ns) * 1e-9; }

}  // namespace

StepWatchdog::StepWatchdog(double seconds, OnStall on_stall, int replicas, const ParameterLayout& layout,
                           std::span<const Bucket> buckets)
    : seconds_(seconds),
      on_stall_(std::move(on_stall)),
      num_replicas_(replicas),
      layout_(layout),
      buckets_(buckets),
      replicas_(std::make_unique<Replica[]>(static_cast<size_t>(replicas))),
      updates_(std::make_unique<Node[]>(buckets.size())) {
  if (!(seconds >= 0)) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("watchdog is {}; at least 0 is needed", seconds));
  }
  if (seconds > 0) thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

StepWatchdog::~StepWatchdog() = default;

void StepWatchdog::step_begins(const std::string& place, int active) {
  if (seconds_ == 0) return;
  {
    const std::lock_guard lock(mutex_);
    for (int replica = 0; replica < num_replicas_; ++replica) {
      replicas_[replica].phase.store(replica < active ? Phase::kWaiting : Phase::kDone, std::memory_order_relaxed);
      replicas_[replica].parameter.store(-1, std::memory_order_relaxed);
    }
    decision_.work.store(Work::kWaiting, std::memory_order_relaxed);
    for (size_t i = 0; i < buckets_.size(); ++i) updates_[i].work.store(Work::kWaiting, std::memory_order_relaxed);
    moves_.fetch_add(1, std::memory_order_relaxed);
    place_ = place;
    active_ = active;
    in_step_ = true;
  }
  wake_.notify_all();
}

void StepWatchdog::step_ends() {
  if (seconds_ == 0) return;
  const std::lock_guard lock(mutex_);
  in_step_ = false;
}

void StepWatchdog::watch(const std::stop_token& stop) {
  const auto interval = std::chrono::duration<double>(seconds_ / 4);
  uint64_t seen = 0;
  int64_t still_ns = now_ns();
  bool told = false;
  std::unique_lock lock(mutex_);
  while (wake_.wait(lock, stop, [this] { return in_step_; }) && !stop.stop_requested()) {
    wake_.wait_for(lock, stop, interval, [] { return false; });
    if (stop.stop_requested()) return;
    const int64_t now = now_ns();  // before the moves: what is told has not moved for so long, whenever this thread ran
    const uint64_t moves = moves_.load(std::memory_order_relaxed);
    if (moves != seen || !in_step_) {
      seen = moves;
      still_ns = now_ns();
      told = false;
      continue;
    }
    const double still = seconds_since(still_ns, now);
    if (told || still < seconds_) continue;
    told = true;
    const Stall stall = describe(still);
    lock.unlock();
    tell(stall);
    lock.lock();
  }
}

void StepWatchdog::tell(const Stall& stall) const {
  if (on_stall_ == nullptr) {
    fmt::print(stderr, "{}\n", stall.report);
    return;
  }
  std::string what = "an exception that is no std::exception";
  try {
    on_stall_(stall);
    return;
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
  }
  fmt::print(stderr, "{}\non_stall failed: {}\n", stall.report, what);
}

Stall StepWatchdog::describe(double seconds) const {
  Stall stall{.seconds = seconds};
  // The decision comes when all replicas are done.
  if (decision_.work.load() == Work::kWaiting) {
    describe_replicas(stall);
  } else {
    describe_update(stall);
  }
  stall.report = fmt::format("nothing has moved for {:.1f} s: {}{}", seconds, stall.cause, stall.report);
  return stall;
}

// The cause, and the lines below it as the report.
void StepWatchdog::describe_replicas(Stall& stall) const {
  const int64_t now = now_ns();
  int slowest = -1;
  int waiting = 0;
  int done = 0;
  for (int replica = 0; replica < active_; ++replica) {
    const Phase phase = replicas_[replica].phase.load(std::memory_order_relaxed);
    if (phase == Phase::kDone) ++done;
    if (phase == Phase::kWaiting) ++waiting;
    if (phase != Phase::kForward && phase != Phase::kBackward) continue;
    const int64_t since = replicas_[replica].since_ns.load(std::memory_order_relaxed);
    if (slowest < 0 || since < replicas_[slowest].since_ns.load(std::memory_order_relaxed)) slowest = replica;
    const int id = replicas_[replica].parameter.load(std::memory_order_relaxed);
    const std::string after =
        id < 0 ? std::string()
               : fmt::format(", after the gradient of '{}'", layout_.parameters()[static_cast<size_t>(id)].name);
    stall.report += fmt::format("\n  replica {}: in its {} pass{}, nothing for {:.1f} s", replica,
                                phase == Phase::kForward ? "forward" : "backward", after, seconds_since(since, now));
  }
  if (slowest >= 0) {
    stall.cause =
        fmt::format("{} waits for replica {}, which is in its {} pass and has moved nothing for {:.1f} s", place_,
                    slowest, replicas_[slowest].phase.load() == Phase::kForward ? "forward" : "backward",
                    seconds_since(replicas_[slowest].since_ns.load(), now));
  } else if (waiting > 0) {
    stall.cause = fmt::format("{} waits for a thread: {} replicas have not begun", place_, waiting);
  } else {
    stall.cause = fmt::format("{} waits for a thread: the decision after its replicas has not begun", place_);
  }
  stall.report += fmt::format("\n  {} of {} replicas are done, {} have not begun", done, active_, waiting);
}

void StepWatchdog::describe_update(Stall& stall) const {
  const int64_t now = now_ns();
  if (decision_.work.load() == Work::kRuns) {
    stall.cause = fmt::format("{} waits for its decision (norm and clipping), which has run for {:.1f} s", place_,
                              seconds_since(decision_.since_ns.load(), now));
    return;
  }
  size_t slowest = buckets_.size();
  int waiting = 0;
  int done = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    const Work work = updates_[bucket].work.load(std::memory_order_relaxed);
    if (work == Work::kDone) ++done;
    if (work == Work::kWaiting) ++waiting;
    if (work != Work::kRuns) continue;
    const int64_t since = updates_[bucket].since_ns.load(std::memory_order_relaxed);
    if (slowest == buckets_.size() || since < updates_[slowest].since_ns.load(std::memory_order_relaxed)) {
      slowest = bucket;
    }
    stall.report += fmt::format("\n  the update of {}: for {:.1f} s", bucket_name(bucket), seconds_since(since, now));
  }
  if (slowest < buckets_.size()) {
    stall.cause = fmt::format("{} waits for the update of {}, which has run for {:.1f} s", place_, bucket_name(slowest),
                              seconds_since(updates_[slowest].since_ns.load(), now));
  } else {
    stall.cause = fmt::format("{} waits for a thread: {} updates have not begun", place_, waiting);
  }
  stall.report += fmt::format("\n  {} of {} updates are done, {} have not begun", done, buckets_.size(), waiting);
}

std::string StepWatchdog::bucket_name(size_t bucket) const {
  const std::vector<int>& parameters = buckets_[bucket].parameters;
  const std::string& first = layout_.parameters()[static_cast<size_t>(parameters.front())].name;
  return fmt::format("bucket {} ('{}'{})", bucket, first,
                     parameters.size() > 1 ? fmt::format(" and {} more", parameters.size() - 1) : "");
}

}  // namespace millrace
