#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// What a running pipeline did when, for a picture of it: polls of stages, bodies of maps, reads, waits of the caller
/// in `next()`, and how full the queues were.
///
///     auto trace = std::make_shared<Trace>();
///     { Pipeline pipeline = dataset.start({.trace = trace}); ... }
///     write_whole_file("trace.json", trace->to_json());   // chrome://tracing, https://ui.perfetto.dev
///
/// Every thread writes to a ring of its own, without a lock; when it is full the oldest events go, and are counted. So
/// it may stay on for any time, and holds the last moments. One trace may serve several pipelines, one after the other.
/// Format: Trace Event Format, "JSON Array Format" (Chrome; times in microseconds).
class Trace {
 public:
  /// `events_per_thread`: places in a ring, 32 bytes each; at least 1. Default: 65,536
  explicit Trace(size_t events_per_thread = size_t{1} << 16);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// The number that stands for a name in events. Any thread.
  [[nodiscard]] uint32_t name(std::string_view text);
  /// The calling thread was busy with this from `begin` to `end`, nanoseconds of `now_ns`. Any thread.
  void span(uint32_t name, int64_t begin, int64_t end) { add({begin, end - begin, name, Kind::kSpan, 0}); }
  /// The same of something that no thread was busy with. `lane`: those of one lane do not overlap.
  void lane_span(uint32_t name, int64_t begin, int64_t end, uint32_t lane) {
    add({begin, end - begin, name, Kind::kLaneSpan, lane});
  }
  /// A number that has changed. Any thread.
  void counter(uint32_t name, int64_t at, int64_t value) { add({at, value, name, Kind::kCounter, 0}); }

  /// A lane for something that begins, until it is given back. Any thread.
  [[nodiscard]] uint32_t take_lane();
  void give_back_lane(uint32_t lane);

  /// Events that were overwritten by later ones.
  [[nodiscard]] uint64_t num_dropped() const;
  /// All events. When no pipeline records any more.
  [[nodiscard]] std::string to_json() const;

 private:
  enum class Kind : uint32_t { kSpan, kLaneSpan, kCounter };
  struct Event {
    int64_t at = 0;     // nanoseconds
    int64_t value = 0;  // duration, or of a counter
    uint32_t name = 0;
    Kind kind = Kind::kSpan;
    uint32_t lane = 0;
  };
  struct Ring {
    std::vector<Event> events;
    std::atomic<uint64_t> written{0};
    std::string thread;
  };

  void add(const Event& event) {
    Ring& ring = of_this_thread.trace == id_ ? *of_this_thread.ring : new_ring();
    const uint64_t written = ring.written.load(std::memory_order_relaxed);
    ring.events[written % events_per_thread_] = event;
    ring.written.store(written + 1, std::memory_order_release);
  }
  Ring& new_ring();

  // The ring that this thread wrote to last.
  struct Last {
    uint64_t trace;
    Ring* ring;
  };
  static inline constinit thread_local Last of_this_thread{0, nullptr};

  const uint64_t id_;
  const size_t events_per_thread_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Ring>> rings_;
  std::vector<std::string> names_;
  std::vector<uint32_t> free_lanes_;
  uint32_t num_lanes_ = 0;
};

/// Where the spans of one thing go; nowhere without a trace.
struct TraceName {
  Trace* trace = nullptr;
  uint32_t name = 0;

  TraceName() = default;
  TraceName(Trace* to, std::string_view text) : trace(to), name(to == nullptr ? 0 : to->name(text)) {}
  void span(int64_t begin, int64_t end) const {
    if (trace != nullptr) [[unlikely]] {
      trace->span(name, begin, end);
    }
  }
};

}  // namespace millrace
