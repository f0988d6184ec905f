#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

namespace millrace {

/// Most requests to one host at a time.
struct RequestLimits {
  size_t most = 64;         ///< Default: 64
  size_t most_small = 256;  ///< of `HttpRequest::is_small`. Default: 256
};

/// Which requests to each host may be sent, first come, first served. A host begins with 32 at a time; each answer
/// makes it one more, and one that says that the server is busy halves them, once a second at most (additive increase,
/// multiplicative decrease). Small requests are counted alone. One thread.
class RequestQueue {
 public:
  static constexpr size_t kFirst = 32;  // more than shards take turns by default
  static constexpr size_t kLeast = 4;

  explicit RequestQueue(RequestLimits limits) : limits_(limits) {}

  /// `request`: a number that no other has.
  void add(uint64_t request, const std::string& url, bool is_small);
  /// One that may be sent now, which counts from then on; nothing where there is none.
  [[nodiscard]] std::optional<uint64_t> take();
  /// An answer with this status to a request that goes on: it was sent a second time, too.
  void note(uint64_t request, int status, std::chrono::nanoseconds now);
  /// Whether the server of a request has said within the last second that it is busy.
  [[nodiscard]] bool is_busy(uint64_t request, std::chrono::nanoseconds now) const;
  /// It waits no more, or came to an end: of an answer with this status, 0: there was none.
  void remove(uint64_t request, int status, std::chrono::nanoseconds now);

 private:
  struct Host {
    size_t most = 0;
    size_t limit = 0;
    size_t in_flight = 0;
    std::deque<uint64_t> waiting = {};  // some may be there no more
    std::optional<std::chrono::nanoseconds> halved_at = {};
  };
  struct Request {
    Host* host;
    bool is_sent;
  };

  static void adjust(Host& host, int status, std::chrono::nanoseconds now);

  const RequestLimits limits_;
  std::map<std::string, Host> hosts_;
  std::unordered_map<uint64_t, Request> requests_;
};

}  // namespace millrace
