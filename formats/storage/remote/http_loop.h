#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <curl/curl.h>

#include "millrace/formats/storage/remote/hedge_policy.h"
#include "millrace/formats/storage/remote/http_call.h"
#include "millrace/formats/storage/remote/http_engine.h"
#include "millrace/formats/storage/remote/request_queue.h"

namespace millrace {

/// What the thread of an engine runs, and what it is told from others. It outlives the engine where that ends on this
/// thread. `run` is of the thread; all else from any.
class HttpLoop {
 public:
  explicit HttpLoop(HttpEngineOptions options);
  ~HttpLoop();
  HttpLoop(const HttpLoop&) = delete;
  HttpLoop& operator=(const HttpLoop&) = delete;

  void run() noexcept;

  uint64_t start(HttpRequest request, std::shared_ptr<HttpSink> sink);
  void cancel(uint64_t call);
  void call_after(std::chrono::nanoseconds time, std::function<void()> function);
  /// From now on each call is cancelled, those in flight too, and no timer is waited for.
  void refuse();
  /// The same; returns when they are told, connections that were kept are closed, and OpenSSL has nothing of the
  /// thread.
  void refuse_all();
  [[nodiscard]] bool runs_here() const { return thread_ == std::this_thread::get_id(); }
  [[nodiscard]] bool is_refusing() const;
  void stop();
  /// What libcurl holds stays as it is: the connections are those of the process that was forked.
  void leak();
  void wake();
  [[nodiscard]] std::chrono::nanoseconds now() const { return options_.clock->now(); }
  [[nodiscard]] std::chrono::system_clock::time_point wall_now() const { return options_.clock->wall_now(); }
  [[nodiscard]] HttpStatistics statistics() const;

 private:
  // A call, and while it is slow a second one for the same.
  struct Flight {
    std::unique_ptr<HttpCall> call = {};
    std::unique_ptr<HttpCall> second = {};
    HedgePolicy* policy = nullptr;
    bool is_hedged = false;  // has or had its second one
    // There was to be none, before its head came and after that.
    std::array<bool, 2> is_refused = {};

    [[nodiscard]] bool may_be_hedged() const { return !is_hedged && !is_refused[call->has_head() ? 1 : 0]; }
  };
  using Flights = std::map<uint64_t, Flight>;

  // Of an answer: until its first byte, and from there on.
  struct Times {
    std::chrono::nanoseconds first_byte{0};
    std::chrono::nanoseconds body{0};
  };

  bool take_orders();
  void tell_refused();
  void leave_libraries(CURLM* next);
  void close_connections(CURLM* next);
  void add(std::unique_ptr<HttpCall> call);
  void begin(uint64_t number);
  void send(HttpCall& call);
  void take_finished();
  void look_at_deadlines();
  void hedge();
  void call_timers();
  void sleep();
  void cancel_all();
  void cancel(Flights::iterator place);
  void end(Flights::iterator place, HttpCall& call, CURLcode code);
  Times leave(HttpCall& call);
  void count(const HttpCall& call, std::chrono::nanoseconds first_byte);

  HttpEngineOptions options_;
  std::mutex multi_mutex_;  // for `wake`; the thread itself reads without it
  CURLM* multi_ = nullptr;
  // Of the thread alone.
  Flights calls_;
  RequestQueue queue_;
  std::map<std::string, HedgePolicy> hedging_;  // of origins
  bool is_leaked_ = false;
  std::atomic<std::thread::id> thread_ = {};  // since it runs
  int refused_rounds_ = 0;

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<HttpCall>> new_calls_;
  std::vector<uint64_t> cancelled_;
  std::multimap<std::chrono::nanoseconds, std::function<void()>> timers_;
  uint64_t next_number_ = 1;
  bool stopping_ = false;
  bool refusing_ = false;
  bool has_refused_ = false;
  std::condition_variable refuses_;
  HttpStatistics statistics_;
};

}  // namespace millrace
