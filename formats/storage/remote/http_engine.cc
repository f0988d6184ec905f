#include "millrace/formats/storage/remote/http_engine.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <curl/curl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/http_call.h"
#include "millrace/formats/storage/remote/request_queue.h"

namespace millrace {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

class SteadyClock final : public HttpClock {
 public:
  Nanoseconds now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
  Nanoseconds sleep_for(Nanoseconds wait) const override { return wait; }
};

void initialize_curl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (code != CURLE_OK) {
    throw ErrorException(ErrorCode::kIo, fmt::format("libcurl does not start: {}", curl_easy_strerror(code)));
  }
}

}  // namespace

HttpStatistics HttpStatistics::operator-(const HttpStatistics& earlier) const {
  return {.requests = requests - earlier.requests,
          .retries = retries - earlier.retries,
          .bytes = bytes - earlier.bytes,
          .answers = answers - earlier.answers,
          .first_byte = first_byte - earlier.first_byte,
          .longest_first_byte = longest_first_byte};
}

// What the engine's thread runs. It outlives the engine where that ends on its own thread.
class HttpEngine::Loop {
 public:
  explicit Loop(HttpEngineOptions options) : options_(std::move(options)), queue_(options_.limits) {
    if (options_.clock == nullptr) options_.clock = std::make_shared<SteadyClock>();
    initialize_curl();
    multi_ = curl_multi_init();
    if (multi_ == nullptr) throw std::bad_alloc();
    // Of connections that are kept open.
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS,
                      static_cast<long>(options_.limits.most + options_.limits.most_small));
  }
  ~Loop() {
    if (!is_leaked_) curl_multi_cleanup(multi_);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  uint64_t start(HttpRequest request, std::shared_ptr<HttpSink> sink) {
    uint64_t number;
    {
      const std::lock_guard lock(mutex_);
      number = next_number_++;
      new_calls_.push_back(std::make_unique<HttpCall>(number, std::move(request), std::move(sink), now()));
    }
    wake();
    return number;
  }
  void cancel(uint64_t call) {
    {
      const std::lock_guard lock(mutex_);
      cancelled_.push_back(call);
    }
    wake();
  }
  void call_after(Nanoseconds time, std::function<void()> function) {
    {
      const std::lock_guard lock(mutex_);
      timers_.emplace(options_.clock->now() + time, std::move(function));
    }
    wake();
  }
  // From now on each call is cancelled, those in flight too, and no timer is waited for. Returns when no connection is
  // in use.
  void refuse_all() {
    std::unique_lock lock(mutex_);
    refusing_ = true;
    wake();
    refuses_.wait(lock, [this] { return has_refused_; });
  }
  bool is_refusing() const {
    const std::lock_guard lock(mutex_);
    return refusing_;
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake();
  }
  // What libcurl holds stays as it is.
  void leak() {
    is_leaked_ = true;
    for (auto& [number, call] : calls_) static_cast<void>(call.release());
  }
  void wake() { curl_multi_wakeup(multi_); }
  Nanoseconds now() const { return options_.clock->now(); }
  std::chrono::system_clock::time_point wall_now() const { return options_.clock->wall_now(); }

  HttpStatistics statistics() const {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

  void run() noexcept {
    while (take_orders()) {
      int running = 0;
      curl_multi_perform(multi_, &running);
      take_finished();
      look_at_deadlines();
      call_timers();
      while (const auto number = queue_.take()) begin(*number);
      sleep();
    }
    cancel_all();
  }

 private:
  void cancel_all() {
    for (auto& [number, call] : std::exchange(calls_, {})) {
      call->cancel();
      end(*call, CURLE_OK);
    }
  }

  // False when all is to end.
  bool take_orders() {
    std::vector<std::unique_ptr<HttpCall>> calls;
    std::vector<uint64_t> cancelled;
    bool stopping;
    bool refusing;
    {
      const std::lock_guard lock(mutex_);
      calls.swap(new_calls_);
      cancelled.swap(cancelled_);
      stopping = stopping_;
      refusing = refusing_;
    }
    for (auto& call : calls) add(std::move(call));
    if (refusing) {
      cancel_all();
      const std::lock_guard lock(mutex_);
      has_refused_ = true;
      refuses_.notify_all();
    }
    for (const uint64_t number : cancelled) {
      const auto found = calls_.find(number);
      if (found == calls_.end()) continue;
      const std::unique_ptr<HttpCall> call = std::move(found->second);
      calls_.erase(found);
      call->cancel();
      end(*call, CURLE_OK);
    }
    return !stopping;
  }

  void add(std::unique_ptr<HttpCall> call) {
    HttpCall& added = *call;
    try {
      queue_.add(added.number(), added.request().url, added.request().is_small);
      calls_.emplace(added.number(), std::move(call));
    } catch (...) {
      queue_.remove(added.number(), 0, now());
      added.finish(CURLE_OUT_OF_MEMORY);
    }
  }

  void begin(uint64_t number) {
    HttpCall& call = *calls_.at(number);
    try {
      call.set_up(options_.ca_file, now());
      if (curl_multi_add_handle(multi_, call.easy()) != CURLM_OK) throw std::bad_alloc();
    } catch (const ErrorException& exception) {
      call.refuse(exception.error().message);
      const auto node = calls_.extract(number);
      end(*node.mapped(), CURLE_OK);
    } catch (...) {
      const auto node = calls_.extract(number);
      end(*node.mapped(), CURLE_OUT_OF_MEMORY);
    }
  }

  // Takes it from libcurl first: by then nothing of the call is touched any more.
  void end(HttpCall& call, CURLcode code) {
    if (call.easy() != nullptr) {
      note(call);
      curl_multi_remove_handle(multi_, call.easy());
    }
    queue_.remove(call.number(), call.status(), now());
    call.finish(code);
  }

  void note(const HttpCall& call) {
    curl_off_t microseconds = 0;
    curl_easy_getinfo(call.easy(), CURLINFO_STARTTRANSFER_TIME_T, &microseconds);
    const std::lock_guard lock(mutex_);
    ++statistics_.requests;
    if (call.request().is_retry) ++statistics_.retries;
    statistics_.bytes += call.received();
    if (call.status() == 0) return;
    const Nanoseconds first_byte = std::chrono::microseconds(microseconds);
    ++statistics_.answers;
    statistics_.first_byte += first_byte;
    statistics_.longest_first_byte = std::max(statistics_.longest_first_byte, first_byte);
  }

  void take_finished() {
    int left = 0;
    while (const CURLMsg* const message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      HttpCall* of = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &of);
      const auto node = calls_.extract(of->number());
      end(*node.mapped(), code);
    }
  }

  void look_at_deadlines() {
    const Nanoseconds now = options_.clock->now();
    for (auto next = calls_.begin(); next != calls_.end();) {
      const auto here = next++;
      here->second->note_time(now);
      if (here->second->deadline() > now) continue;
      const auto node = calls_.extract(here);
      node.mapped()->time_out();
      end(*node.mapped(), CURLE_OK);
    }
  }

  void call_timers() {
    const Nanoseconds now = options_.clock->now();
    for (;;) {
      std::function<void()> function;
      {
        const std::lock_guard lock(mutex_);
        if (timers_.empty() || (timers_.begin()->first > now && !refusing_)) return;
        function = std::move(timers_.begin()->second);
        timers_.erase(timers_.begin());
      }
      function();
    }
  }

  void sleep() {
    constexpr Nanoseconds kLongest = std::chrono::seconds(60);
    const Nanoseconds now = options_.clock->now();
    Nanoseconds wait = kLongest;
    for (const auto& [number, call] : calls_) wait = std::min(wait, call->deadline() - now);
    {
      const std::lock_guard lock(mutex_);
      if (!timers_.empty() && refusing_) return;
      if (!timers_.empty()) wait = std::min(wait, timers_.begin()->first - now);
      if (!new_calls_.empty() || !cancelled_.empty() || stopping_) return;
    }
    if (wait <= Nanoseconds::zero()) return;
    const auto longest = std::chrono::ceil<std::chrono::milliseconds>(options_.clock->sleep_for(wait));
    curl_multi_poll(multi_, nullptr, 0, static_cast<int>(longest.count()), nullptr);
  }

  HttpEngineOptions options_;
  CURLM* multi_ = nullptr;
  // Of the thread alone.
  std::map<uint64_t, std::unique_ptr<HttpCall>> calls_;
  RequestQueue queue_;
  bool is_leaked_ = false;

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<HttpCall>> new_calls_;
  std::vector<uint64_t> cancelled_;
  std::multimap<Nanoseconds, std::function<void()>> timers_;
  uint64_t next_number_ = 1;
  bool stopping_ = false;
  bool refusing_ = false;
  bool has_refused_ = false;
  std::condition_variable refuses_;
  HttpStatistics statistics_;
};

HttpEngine::HttpEngine(HttpEngineOptions options)
    : process_(::getpid()),
      loop_(std::make_shared<Loop>(std::move(options))),
      thread_([loop = loop_] { loop->run(); }) {}

bool HttpEngine::has_ended() const { return loop_->is_refusing(); }

bool HttpEngine::is_of_other_process() const { return process_ != ::getpid(); }

HttpEngine::~HttpEngine() {
  if (is_of_other_process()) {
    // The connections are those of the process that was forked, and the threads are not here.
    for (Aside& one : aside_) one.thread.detach();
    thread_.detach();
    loop_->leak();
    return;
  }
  end_aside();
  if (std::this_thread::get_id() == thread_.get_id()) {
    loop_->stop();
    thread_.detach();  // it ends on its own, with the loop
  } else {
    end_thread();
  }
}

void HttpEngine::run_aside(std::function<void(const std::stop_token&)> function) {
  const std::lock_guard lock(aside_mutex_);
  if (aside_ended_) throw std::system_error(std::make_error_code(std::errc::operation_canceled));
  std::erase_if(aside_, [](const Aside& one) { return one.is_done->load(); });
  auto is_done = std::make_shared<std::atomic<bool>>(false);
  aside_.reserve(aside_.size() + 1);
  aside_.push_back(
      {.is_done = is_done, .thread = std::jthread([is_done, function](const std::stop_token& stop) mutable {
                             std::exchange(function, nullptr)(stop);
                             *is_done = true;
                           })});
}

void HttpEngine::end_aside() {
  std::vector<Aside> ending;
  {
    const std::lock_guard lock(aside_mutex_);
    aside_ended_ = true;
    ending.swap(aside_);
  }
  for (Aside& one : ending) {
    one.thread.request_stop();
    // The last reference may have gone on it.
    if (one.thread.get_id() == std::this_thread::get_id()) one.thread.detach();
  }
}

void HttpEngine::end_thread() {
  loop_->stop();
  if (thread_.joinable()) thread_.join();
}

std::string ca_file_in(const Environment& environment) {
  for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    if (auto file = environment(name)) return *file;
  }
  return {};
}

std::shared_ptr<HttpEngine> HttpEngine::of_process() {
  static std::mutex mutex;
  static std::weak_ptr<HttpEngine> known;
  static std::string ca_file;  // of that one
  const std::lock_guard lock(mutex);
  std::shared_ptr<HttpEngine> engine = known.lock();
  const std::string ca_file_now = ca_file_in(process_environment);
  if (engine == nullptr || engine->is_of_other_process() || ca_file != ca_file_now) {
    ca_file = ca_file_now;
    known = engine = std::make_shared<HttpEngine>(HttpEngineOptions{.ca_file = ca_file});
    // Before OpenSSL's own, which was registered while the engine was made: its thread may be in a connection.
    static const int registered = std::atexit([] {
      const std::shared_ptr<HttpEngine> last = known.lock();
      if (last == nullptr || last->is_of_other_process()) return;
      last->end_aside();
      if (std::this_thread::get_id() != last->thread_.get_id()) last->loop_->refuse_all();
    });
    static_cast<void>(registered);
  }
  return engine;
}

uint64_t HttpEngine::start(HttpRequest request, std::shared_ptr<HttpSink> sink) {
  return loop_->start(std::move(request), std::move(sink));
}
void HttpEngine::cancel(uint64_t call) { loop_->cancel(call); }
void HttpEngine::call_after(std::chrono::nanoseconds time, std::function<void()> function) {
  loop_->call_after(time, std::move(function));
}
std::chrono::nanoseconds HttpEngine::now() const { return loop_->now(); }
std::chrono::system_clock::time_point HttpEngine::wall_now() const { return loop_->wall_now(); }
HttpStatistics HttpEngine::statistics() const { return loop_->statistics(); }
void HttpEngine::look_at_clock() { loop_->wake(); }

}  // namespace millrace
