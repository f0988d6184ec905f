#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>

#include "millrace/formats/storage/remote/http_engine.h"
#include "millrace/formats/storage/remote/http_message.h"

namespace millrace {

struct RetryOptions {
  /// Before it is given up for the time that has passed.
  static constexpr int kLeastAttempts = 3;
  /// Longest wait before the second attempt; doubles with each. The wait is drawn between 0 and that ("full jitter",
  /// https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter). Default: 100 ms
  std::chrono::milliseconds first_wait{100};
  std::chrono::milliseconds longest_wait{10'000};  ///< Default: 10 s
  /// From the first attempt, or since a good part came, without the time in which requests waited to be sent; below the
  /// 120 s after which programs say that nothing moves. Default: 100 s
  std::chrono::milliseconds give_up_after{100'000};
};

/// Tokens that attempts after the first take. Without tokens an attempt waits for the longest time: a store that is
/// down is not asked ever more often. One for each host; any thread.
class RetryBudget {
 public:
  static constexpr int kMost = 500;
  static constexpr int kOfRetry = 5;
  static constexpr int kOfTransport = 10;  ///< of a retry after a connection that failed
  static constexpr int kOfSuccess = 1;     ///< comes back

  [[nodiscard]] bool take(int tokens);
  void give(int tokens);
  /// A time between 0 and `longest`.
  [[nodiscard]] std::chrono::nanoseconds jitter(std::chrono::nanoseconds longest);

 private:
  std::mutex mutex_;
  int left_ = kMost;
  std::minstd_rand random_{std::random_device()()};
};

/// How long an answer asks to wait, by its `Retry-After` (RFC 9110, 10.2.3): seconds, or a date, which counts from the
/// `Date` of the answer, and without one from `now`. At most an hour; nothing where it does not say.
[[nodiscard]] std::optional<std::chrono::seconds> retry_after(const HttpHead& head,
                                                              std::chrono::system_clock::time_point now);

/// How a storage's requests are sent and asked again.
struct HttpCalls {
  std::shared_ptr<HttpEngine> engine = {};
  std::shared_ptr<RetryBudget> budget = {};
  RetryOptions retries = {};
};

/// What an answer means for who asked.
enum class AttemptOutcome {
  kAnswered,   ///< it is the answer, good or bad
  kAgain,      ///< it leads to another request, to be asked at once; not without end
  kTransport,  ///< asking again may help: nothing came, or not all of it
  kBusy,       ///< asking again may help: the server says so
  kPartial,    ///< a good part of it came: what is left is asked for, as if it were the first attempt
};

/// The request of an attempt, or why there can be none.
struct PreparedRequest {
  HttpRequest request = {};
  std::string error = {};  ///< empty: there is a request

  [[nodiscard]] static PreparedRequest refused(std::string why);
};

/// Asks until there is an answer, with waits, a budget and an end; made with `start`.
class RetriedCall final : public HttpSink, public std::enable_shared_from_this<RetriedCall> {
 public:
  struct Callbacks {
    /// Makes the request of the next attempt: what is in it may depend on the time, on what has come already, or on
    /// credentials that have to be waited for. Calls what it is given once, from any thread, at once or later; what
    /// comes after the end is dropped. Without a request there is no further attempt: `kRefused`, with its error.
    std::function<void(std::function<void(PreparedRequest)>)> request;
    std::function<AttemptOutcome(const HttpResponse&)> outcome;
    /// Is told the last answer and how many attempts there were, once, on the engine's thread. Must not throw.
    std::function<void(HttpResponse, int attempts)> done;
  };

  static std::shared_ptr<RetriedCall> start(HttpCalls calls, Callbacks callbacks);
  /// It comes to an end soon. Any thread.
  void cancel();

  void answered(HttpResponse response) noexcept override;

 private:
  RetriedCall(HttpCalls calls, Callbacks callbacks);
  // What is waited for.
  enum class State { kRequest, kAnswer, kNextAttempt, kEnd };

  void ask();
  void take_request(int attempt, PreparedRequest prepared) noexcept;
  void go_on() noexcept;
  void end_soon(HttpResponse response) noexcept;
  void end(HttpResponse response) noexcept;
  bool is_to_wait(const HttpResponse& response, std::chrono::nanoseconds& wait);

  const HttpCalls calls_;
  std::chrono::nanoseconds begun_at_;  // or when a good part came last
  int failures_ = 0;                   // since then
  Callbacks callbacks_;

  std::mutex mutex_;
  State state_ = State::kNextAttempt;
  int attempts_ = 0;
  bool cancelled_ = false;
  uint64_t call_ = 0;  // the number of the attempt in flight, while its answer is waited for
};

}  // namespace millrace
