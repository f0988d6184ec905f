#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include <sys/types.h>

#include "millrace/formats/storage/remote/environment.h"
#include "millrace/formats/storage/remote/http_message.h"
#include "millrace/formats/storage/remote/request_queue.h"

namespace millrace {

class HttpLoop;

/// The time that an engine goes by.
class HttpClock {
 public:
  virtual ~HttpClock() = default;
  [[nodiscard]] virtual std::chrono::nanoseconds now() const = 0;  ///< since any moment; never less than before
  /// How long the engine may sleep, at most, when `wait` is left until the next deadline.
  [[nodiscard]] virtual std::chrono::nanoseconds sleep_for(std::chrono::nanoseconds wait) const = 0;
  /// The time of day, by which signatures are dated and credentials end.
  [[nodiscard]] virtual std::chrono::system_clock::time_point wall_now() const {
    return std::chrono::system_clock::now();
  }
};

struct HttpEngineOptions {
  RequestLimits limits = {};
  /// PEM file with the certificates of authorities. Default: empty, the system's
  std::string ca_file = {};
  /// Requests that are sent a second time since they are slow (`HedgePolicy`), of all to a host. Default: 0.05; 0: none
  double hedged_share = 0.05;
  /// Default: null, the system's steady clock
  std::shared_ptr<const HttpClock> clock = nullptr;
};

/// What calls have come to.
struct HttpStatistics {
  uint64_t requests = 0;                           ///< that were sent
  uint64_t retries = 0;                            ///< of these, after an attempt that failed
  uint64_t hedged = 0;                             ///< of these, a second time while the first one was slow
  uint64_t bytes = 0;                              ///< of the bodies of answers
  uint64_t answers = 0;                            ///< of which at least the head came
  std::chrono::nanoseconds first_byte{0};          ///< until the first byte of answers, connecting included; the sum
  std::chrono::nanoseconds longest_first_byte{0};  ///< of these

  /// Since `earlier`, of the same engine; but for the longest, which is of all.
  [[nodiscard]] HttpStatistics operator-(const HttpStatistics& earlier) const;
};

/// The file of AWS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE; empty: none is set. libcurl reads none of them itself.
[[nodiscard]] std::string ca_file_in(const Environment& environment);

/// Calls of HTTP/1.1 servers, any number at a time, on one thread of its own (libcurl's multi interface). Redirects are
/// answers like others. All functions from any thread, those of sinks included.
///
/// When the last reference goes, calls in flight are cancelled: their sinks are told, and the thread has ended, unless
/// it was that thread's. When the process exits the calls of all engines are cancelled, each that is started
/// afterwards, and threads that end are waited for; nothing that runs aside may call `exit`.
class HttpEngine {
 public:
  explicit HttpEngine(HttpEngineOptions options = {});
  ~HttpEngine();
  HttpEngine(const HttpEngine&) = delete;
  HttpEngine& operator=(const HttpEngine&) = delete;

  /// One for the process, with `ca_file_in` its environment, made when it is asked for and kept as long as somebody has
  /// it; another one in the child of a fork, and where the environment names another file.
  static std::shared_ptr<HttpEngine> of_process();

  /// Starts a call, and gives its number. Throws `std::bad_alloc`; then nobody is told.
  uint64_t start(HttpRequest request, std::shared_ptr<HttpSink> sink);
  /// The sink of this call is told soon, if it was not yet: with the answer, or that it was cancelled.
  void cancel(uint64_t call);
  /// Calls a function on the engine's thread after some time, soon when the process exits; or never, where the engine
  /// goes before.
  void call_after(std::chrono::nanoseconds time, std::function<void()> function);
  /// Runs a function on a thread of its own: what waits for files or processes. It is asked to stop when the engine
  /// ends, and that of the process when it exits; both wait for it. Throws `std::system_error` where no thread can be
  /// started, or the engine has ended.
  void run_aside(std::function<void(const std::stop_token&)> function);
  [[nodiscard]] std::chrono::nanoseconds now() const;  ///< of its clock
  [[nodiscard]] std::chrono::system_clock::time_point wall_now() const;
  [[nodiscard]] HttpStatistics statistics() const;  ///< since it was made
  /// Looks at the deadlines again: for a clock that somebody turns.
  void look_at_clock();

  /// The process exits: every call would be cancelled, and what they need, OpenSSL, may be there no more.
  [[nodiscard]] bool has_ended() const;
  /// After a fork in the child: its thread is not there, and nothing may be asked of it.
  [[nodiscard]] bool is_of_other_process() const;

 private:
  friend class EngineThreads;
  struct Thread {
    std::shared_ptr<std::atomic<bool>> is_done;
    std::jthread thread;
  };
  using Threads = std::list<Thread>;  // are handed on without memory
  static Threads start_thread(std::function<void(const std::stop_token&)> function);
  class Aside;

  const pid_t process_;
  const std::shared_ptr<HttpLoop> loop_;
  const std::shared_ptr<Aside> aside_;
  Threads thread_;  // one
};

}  // namespace millrace
