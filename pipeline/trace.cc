#include "millrace/pipeline/trace.h"

#include <algorithm>
#include <map>
#include <thread>

#include <fmt/format.h>
#include <pthread.h>

#include "millrace/formats/chrome_trace/writer.h"
#include "millrace/formats/error.h"

namespace millrace {
namespace {

constexpr uint64_t kFirstLane = 1000;  // thread numbers from here on are lanes

uint64_t next_id() {
  static std::atomic<uint64_t> id{0};
  return ++id;
}

// The name of the calling thread that the system knows.
std::string thread_name() {
  std::string name(16, '\0');
  if (::pthread_getname_np(::pthread_self(), name.data(), name.size()) != 0) return "thread";
  name.resize(name.find('\0'));
  return name;
}

}  // namespace

Trace::Trace(size_t events_per_thread) : id_(next_id()), events_per_thread_(events_per_thread) {
  if (events_per_thread == 0) {
    throw ErrorException(ErrorCode::kInvalidArgument, "trace: events_per_thread is 0, must be at least 1");
  }
}

Trace::~Trace() = default;

uint32_t Trace::name(std::string_view text) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find(names_.begin(), names_.end(), text);
  if (found != names_.end()) return static_cast<uint32_t>(found - names_.begin());
  names_.emplace_back(text);
  return static_cast<uint32_t>(names_.size() - 1);
}

// A thread that wrote to another trace in between gets one more ring: its events are not lost.
Trace::Ring& Trace::new_ring() {
  auto ring = std::make_unique<Ring>();
  ring->events.resize(events_per_thread_);
  ring->thread = thread_name();
  const std::lock_guard lock(mutex_);
  rings_.push_back(std::move(ring));
  of_this_thread = {id_, rings_.back().get()};
  return *rings_.back();
}

uint32_t Trace::take_lane() {
  const std::lock_guard lock(mutex_);
  if (free_lanes_.empty()) return num_lanes_++;
  const auto lowest = std::min_element(free_lanes_.begin(), free_lanes_.end());
  const uint32_t lane = *lowest;
  free_lanes_.erase(lowest);
  return lane;
}

void Trace::give_back_lane(uint32_t lane) {
  const std::lock_guard lock(mutex_);
  free_lanes_.push_back(lane);
}

uint64_t Trace::num_dropped() const {
  const std::lock_guard lock(mutex_);
  uint64_t dropped = 0;
  for (const auto& ring : rings_) {
    const uint64_t written = ring->written.load(std::memory_order_acquire);
    dropped += written - std::min<uint64_t>(written, events_per_thread_);
  }
  return dropped;
}

std::string Trace::to_json() const {
  const uint64_t dropped = num_dropped();
  const std::lock_guard lock(mutex_);
  struct Placed {
    Event event;
    uint64_t thread;
  };
  std::vector<Placed> events;
  ChromeTraceWriter writer;
  writer.process_name("millrace");
  uint64_t thread = 0;
  for (const auto& ring : rings_) {
    ++thread;
    writer.row_name(thread, fmt::format("{} {}", ring->thread, thread));
    const uint64_t written = ring->written.load(std::memory_order_acquire);
    for (uint64_t i = written - std::min<uint64_t>(written, events_per_thread_); i < written; ++i) {
      const Event& event = ring->events[i % events_per_thread_];
      events.push_back({event, event.kind == Kind::kLaneSpan ? kFirstLane + event.lane : thread});
    }
  }
  for (uint32_t lane = 0; lane < num_lanes_; ++lane) {
    writer.row_name(kFirstLane + lane, fmt::format("in flight {}", lane));
  }
  // What lies around others comes before them.
  std::stable_sort(events.begin(), events.end(), [](const Placed& a, const Placed& b) {
    if (a.event.at != b.event.at) return a.event.at < b.event.at;
    const auto duration = [](const Event& event) { return event.kind == Kind::kCounter ? 0 : event.value; };
    return duration(a.event) > duration(b.event);
  });
  const int64_t start = events.empty() ? 0 : events.front().event.at;
  writer.note("dropped events", "count", dropped);
  for (const auto& [event, row] : events) {
    const std::string& name = names_[event.name];
    if (event.kind == Kind::kCounter) {
      writer.counter(row, name, event.at - start, "blocks", event.value);
    } else {
      writer.span(row, name, event.at - start, event.value);
    }
  }
  writer.end();
  return writer.take();
}

}  // namespace millrace
