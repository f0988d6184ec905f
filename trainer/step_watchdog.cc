#include "trainer/step_watchdog.h"

#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "formats/error.h"

namespace millrace {
namespace {

double seconds_since(int64_t then_ns, int64_t now_ns) { return static_cast<double>(now_ns - then_ns) * 1e-9; }

}  // namespace

StepWatchdog::StepWatchdog(double seconds, OnStall on_stall, int replicas, const ParameterLayout& layout)
    : seconds_(seconds),
      on_stall_(std::move(on_stall)),
      replicas_(replicas),
      layout_(layout),
      nodes_(std::make_unique<Node[]>(static_cast<size_t>(replicas))) {
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
    for (int replica = 0; replica < replicas_; ++replica) {
      nodes_[replica].phase.store(replica < active ? Phase::kWaiting : Phase::kDone, std::memory_order_relaxed);
      nodes_[replica].parameter.store(-1, std::memory_order_relaxed);
    }
    updating_.store(false, std::memory_order_relaxed);
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
    const uint64_t moves = moves_.load(std::memory_order_relaxed);
    if (moves != seen || !in_step_) {
      seen = moves;
      still_ns = now_ns();
      told = false;
      continue;
    }
    const double still = seconds_since(still_ns, now_ns());
    if (told || still < seconds_) continue;
    told = true;
    const Stall stall = describe(still);
    lock.unlock();
    if (on_stall_) {
      on_stall_(stall);
    } else {
      fmt::print(stderr, "{}\n", stall.report);
    }
    lock.lock();
  }
}

Stall StepWatchdog::describe(double seconds) const {
  const int64_t now = now_ns();
  std::string lines;
  int slowest = -1;
  int waiting = 0;
  int done = 0;
  for (int replica = 0; replica < active_; ++replica) {
    const Phase phase = nodes_[replica].phase.load(std::memory_order_relaxed);
    if (phase == Phase::kDone) ++done;
    if (phase == Phase::kWaiting) ++waiting;
    if (phase != Phase::kForward && phase != Phase::kBackward) continue;
    const int64_t since = nodes_[replica].since_ns.load(std::memory_order_relaxed);
    if (slowest < 0 || since < nodes_[slowest].since_ns.load(std::memory_order_relaxed)) slowest = replica;
    const int id = nodes_[replica].parameter.load(std::memory_order_relaxed);
    const std::string behind =
        id < 0 ? std::string()
               : fmt::format(", behind the gradient of '{}'", layout_.parameters()[static_cast<size_t>(id)].name);
    lines += fmt::format("\n  replica {}: in its {} pass{}, nothing for {:.1f} s", replica,
                         phase == Phase::kForward ? "forward" : "backward", behind, seconds_since(since, now));
  }
  Stall stall{.seconds = seconds};
  if (slowest >= 0) {
    stall.cause = fmt::format("{} waits for replica {}, which is in its {} pass and has moved nothing for {:.1f} s",
                              place_, slowest, nodes_[slowest].phase.load() == Phase::kForward ? "forward" : "backward",
                              seconds_since(nodes_[slowest].since_ns.load(), now));
  } else if (updating_.load()) {
    stall.cause = fmt::format("{} waits for the update of its weights", place_);
  } else {
    stall.cause = fmt::format("{} waits for a thread: {} replicas have not begun", place_, waiting);
  }
  stall.report = fmt::format("nothing has moved for {:.1f} s: {}{}\n  {} of {} replicas are done, {} have not begun",
                             seconds, stall.cause, lines, done, active_, waiting);
  return stall;
}

}  // namespace millrace
