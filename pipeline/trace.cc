#include "pipeline/trace.h"

#include <algorithm>
#include <map>
#include <thread>

#include <fmt/format.h>
#include <pthread.h>

#include "formats/error.h"

namespace millrace {
namespace {

constexpr int kProcess = 1;
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

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

double microseconds(int64_t ns) { return 1e-3 * static_cast<double>(ns); }

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
  std::string json = fmt::format(
      "[\n{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{},\"tid\":0,\"args\":{{\"name\":\"millrace\"}}}}",
      kProcess);
  const auto name_thread = [&json](uint64_t thread, const std::string& name) {
    json += fmt::format(",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}",
                        kProcess, thread, quoted(name));
  };
  uint64_t thread = 0;
  for (const auto& ring : rings_) {
    name_thread(++thread, fmt::format("{} {}", ring->thread, thread));
    const uint64_t written = ring->written.load(std::memory_order_acquire);
    for (uint64_t i = written - std::min<uint64_t>(written, events_per_thread_); i < written; ++i) {
      const Event& event = ring->events[i % events_per_thread_];
      events.push_back({event, event.kind == Kind::kLaneSpan ? kFirstLane + event.lane : thread});
    }
  }
  for (uint32_t lane = 0; lane < num_lanes_; ++lane) name_thread(kFirstLane + lane, fmt::format("in flight {}", lane));
  // What lies around others comes before them.
  std::stable_sort(events.begin(), events.end(), [](const Placed& a, const Placed& b) {
    if (a.event.at != b.event.at) return a.event.at < b.event.at;
    const auto duration = [](const Event& event) { return event.kind == Kind::kCounter ? 0 : event.value; };
    return duration(a.event) > duration(b.event);
  });
  const int64_t start = events.empty() ? 0 : events.front().event.at;
  json += fmt::format(
      ",\n{{\"name\":\"dropped "
      "events\",\"ph\":\"i\",\"s\":\"g\",\"pid\":{},\"tid\":0,\"ts\":0,\"args\":{{\"count\":{}}}}}",
      kProcess, dropped);
  for (const auto& [event, tid] : events) {
    const std::string name = quoted(names_[event.name]);
    if (event.kind == Kind::kCounter) {
      json +=
          fmt::format(",\n{{\"name\":{},\"ph\":\"C\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"args\":{{\"blocks\":{}}}}}",
                      name, kProcess, tid, microseconds(event.at - start), event.value);
    } else {
      json += fmt::format(",\n{{\"name\":{},\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f}}}", name,
                          kProcess, tid, microseconds(event.at - start), microseconds(event.value));
    }
  }
  return json + "\n]\n";
}

}  // namespace millrace
