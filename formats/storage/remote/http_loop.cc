#include "millrace/formats/storage/remote/http_loop.h"

#include <algorithm>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <openssl/crypto.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/object_url.h"

namespace millrace {
namespace {

using std::chrono::nanoseconds;

class SteadyClock final : public HttpClock {
 public:
  nanoseconds now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
  nanoseconds sleep_for(nanoseconds wait) const override { return wait; }
};

void initialize_curl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (code != CURLE_OK) {
    throw ErrorException(ErrorCode::kIo, fmt::format("libcurl does not start: {}", curl_easy_strerror(code)));
  }
}

nanoseconds time_of(const HttpCall& call, CURLINFO which) {
  curl_off_t microseconds = 0;
  curl_easy_getinfo(call.easy(), which, &microseconds);
  return std::chrono::microseconds(microseconds);
}

}  // namespace

HttpLoop::HttpLoop(HttpEngineOptions options) : options_(std::move(options)), queue_(options_.limits) {
  if (options_.clock == nullptr) options_.clock = std::make_shared<SteadyClock>();
  initialize_curl();
  multi_ = curl_multi_init();
  if (multi_ == nullptr) throw std::bad_alloc();
  // Of connections that are kept open.
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(options_.limits.most + options_.limits.most_small));
}

HttpLoop::~HttpLoop() {
  if (!is_leaked_) close_connections(nullptr);
}

void HttpLoop::wake() {
  const std::lock_guard lock(multi_mutex_);
  if (multi_ != nullptr) curl_multi_wakeup(multi_);
}

// By cleaning up libcurl's handle; `next` takes its place.
void HttpLoop::close_connections(CURLM* next) {
  const std::lock_guard lock(multi_mutex_);
  if (multi_ != nullptr) curl_multi_cleanup(multi_);
  multi_ = next;
}

uint64_t HttpLoop::start(HttpRequest request, std::shared_ptr<HttpSink> sink) {
  uint64_t number;
  {
    const std::lock_guard lock(mutex_);
    number = next_number_++;
    new_calls_.push_back(std::make_unique<HttpCall>(number, std::move(request), std::move(sink), now()));
  }
  wake();
  return number;
}

void HttpLoop::cancel(uint64_t call) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(call);
  }
  wake();
}

void HttpLoop::call_after(nanoseconds time, std::function<void()> function) {
  {
    const std::lock_guard lock(mutex_);
    timers_.emplace(options_.clock->now() + time, std::move(function));
  }
  wake();
}

void HttpLoop::refuse() {
  const std::lock_guard lock(mutex_);
  refusing_ = true;
  wake();
}

void HttpLoop::refuse_all() {
  refuse();
  std::unique_lock lock(mutex_);
  refuses_.wait(lock, [this] { return has_refused_; });
}

bool HttpLoop::is_refusing() const {
  const std::lock_guard lock(mutex_);
  return refusing_;
}

void HttpLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
}

void HttpLoop::leak() {
  is_leaked_ = true;
  for (auto& [number, flight] : calls_) {
    static_cast<void>(flight.call.release());
    static_cast<void>(flight.second.release());
  }
}

HttpStatistics HttpLoop::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void HttpLoop::run() noexcept {
  thread_ = std::this_thread::get_id();
  while (take_orders()) {
    int running = 0;
    curl_multi_perform(multi_, &running);
    take_finished();
    look_at_deadlines();
    hedge();
    call_timers();
    while (const auto number = queue_.take()) begin(*number);
    tell_refused();
    sleep();
  }
  cancel_all();
  leave_libraries(nullptr);
}

// What is told may start calls and timers, which are refused in the next round; but somebody may never stop doing so.
void HttpLoop::tell_refused() {
  constexpr int kMostRounds = 100;
  {
    const std::lock_guard lock(mutex_);
    if (!refusing_ || has_refused_) return;
    const bool is_over = calls_.empty() && new_calls_.empty() && timers_.empty();
    if (!is_over && ++refused_rounds_ < kMostRounds) return;
  }
  leave_libraries(curl_multi_init());  // by which it sleeps
}

// From here on nothing is read; what OpenSSL has for the thread would be nobody's when the process exits.
void HttpLoop::leave_libraries(CURLM* next) {
  close_connections(next);
  ::OPENSSL_thread_stop();
  const std::lock_guard lock(mutex_);
  has_refused_ = true;
  refuses_.notify_all();
}

// False when all is to end.
bool HttpLoop::take_orders() {
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
  if (refusing) cancel_all();
  for (const uint64_t number : cancelled) {
    const auto found = calls_.find(number);
    if (found != calls_.end()) cancel(found);
  }
  return !stopping;
}

void HttpLoop::add(std::unique_ptr<HttpCall> call) {
  HttpCall& added = *call;
  try {
    const std::string& url = added.request().url;
    HedgePolicy& policy = hedging_.try_emplace(origin_of(url), options_.hedged_share).first->second;
    queue_.add(added.number(), url, added.request().is_small);
    Flight& flight = calls_[added.number()];
    flight.call = std::move(call);
    flight.policy = &policy;
  } catch (...) {
    queue_.remove(added.number(), 0, now());
    added.conclude(CURLE_OUT_OF_MEMORY);
    added.tell();
  }
}

void HttpLoop::begin(uint64_t number) {
  const auto place = calls_.find(number);
  HttpCall& call = *place->second.call;
  try {
    send(call);
  } catch (const ErrorException& exception) {
    call.refuse(exception.error().message);
    end(place, call, CURLE_OK);
  } catch (...) {
    end(place, call, CURLE_OUT_OF_MEMORY);
  }
}

void HttpLoop::send(HttpCall& call) {
  call.set_up(options_.ca_file, now());
  if (curl_multi_add_handle(multi_, call.easy()) != CURLM_OK) throw std::bad_alloc();
}

void HttpLoop::take_finished() {
  int left = 0;
  while (const CURLMsg* const message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    HttpCall* call = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
    const auto place = calls_.find(call->number());
    end(place, *call, code);
  }
}

void HttpLoop::look_at_deadlines() {
  const nanoseconds now = options_.clock->now();
  for (auto next = calls_.begin(); next != calls_.end();) {
    const auto here = next++;
    // A second one that is given up leaves the first one in its place.
    for (HttpCall* const call : {here->second.second.get(), here->second.call.get()}) {
      if (call == nullptr) continue;
      call->note_time(now);
      if (call->deadline() > now) continue;
      call->time_out();
      end(here, *call, CURLE_OK);
    }
  }
}

// Each call at most once; none where a server has said that it is busy.
void HttpLoop::hedge() {
  const nanoseconds now = options_.clock->now();
  for (auto& [number, flight] : calls_) {
    if (!flight.may_be_hedged() || flight.call->hedged_at(*flight.policy) > now) continue;
    if (queue_.is_busy(number, now) || !flight.policy->take()) {
      flight.is_refused[flight.call->has_head() ? 1 : 0] = true;
      continue;
    }
    flight.is_hedged = true;
    try {
      flight.second = flight.call->second(now);
      send(*flight.second);
    } catch (...) {
      flight.second = nullptr;  // the first one goes on
    }
  }
}

void HttpLoop::call_timers() {
  const nanoseconds now = options_.clock->now();
  // Those that are due; when all is refused, those that are there: one may set itself again.
  std::multimap<nanoseconds, std::function<void()>> due;
  {
    const std::lock_guard lock(mutex_);
    const auto end = refusing_ ? timers_.end() : timers_.upper_bound(now);
    while (timers_.begin() != end) due.insert(timers_.extract(timers_.begin()));
  }
  while (!due.empty()) due.extract(due.begin()).mapped()();
}

void HttpLoop::sleep() {
  constexpr nanoseconds kLongest = std::chrono::seconds(60);
  const nanoseconds now = options_.clock->now();
  nanoseconds wait = kLongest;
  for (const auto& [number, flight] : calls_) {
    wait = std::min(wait, flight.call->deadline() - now);
    if (flight.may_be_hedged()) wait = std::min(wait, flight.call->hedged_at(*flight.policy) - now);
    if (flight.second != nullptr) wait = std::min(wait, flight.second->deadline() - now);
  }
  {
    const std::lock_guard lock(mutex_);
    if (!timers_.empty() && refusing_) return;
    if (!timers_.empty()) wait = std::min(wait, timers_.begin()->first - now);
    if (!new_calls_.empty() || !cancelled_.empty() || stopping_) return;
  }
  if (wait <= nanoseconds::zero()) return;
  const auto longest = std::chrono::ceil<std::chrono::milliseconds>(options_.clock->sleep_for(wait));
  curl_multi_poll(multi_, nullptr, 0, static_cast<int>(longest.count()), nullptr);
}

void HttpLoop::cancel_all() {
  while (!calls_.empty()) cancel(calls_.begin());
}

void HttpLoop::cancel(Flights::iterator place) {
  Flight& flight = place->second;
  if (flight.second != nullptr) leave(*flight.second);
  flight.second = nullptr;
  flight.call->cancel();
  end(place, *flight.call, CURLE_OK);
}

// A call that is over. Of two the better answer is told: the first one that is good, else the last.
void HttpLoop::end(Flights::iterator place, HttpCall& call, CURLcode code) {
  Flight& flight = place->second;
  const Times times = leave(call);
  call.conclude(code);
  if (call.request().hedged_bytes > 0 && call.is_good())
    flight.policy->note(call.received(), times.first_byte, times.body);
  if (flight.second != nullptr) {
    const bool is_second = &call == flight.second.get();
    if (!call.is_good()) {
      queue_.note(call.number(), call.status(), now());
      if (!is_second) flight.call.swap(flight.second);
      flight.call->keep_answer_of(*flight.second);
      flight.second = nullptr;
      return;
    }
    leave(is_second ? *flight.call : *flight.second);
  }
  queue_.remove(call.number(), call.status(), now());
  const auto node = calls_.extract(place);
  call.tell();
}

// By then nothing of it is touched any more.
HttpLoop::Times HttpLoop::leave(HttpCall& call) {
  if (call.easy() == nullptr) return {};
  const nanoseconds first_byte = time_of(call, CURLINFO_STARTTRANSFER_TIME_T);
  const Times times{.first_byte = first_byte, .body = time_of(call, CURLINFO_TOTAL_TIME_T) - first_byte};
  count(call, first_byte);
  curl_multi_remove_handle(multi_, call.easy());
  return times;
}

void HttpLoop::count(const HttpCall& call, nanoseconds first_byte) {
  const std::lock_guard lock(mutex_);
  ++statistics_.requests;
  if (call.request().is_retry && !call.is_second()) ++statistics_.retries;
  if (call.is_second()) ++statistics_.hedged;
  statistics_.bytes += call.received();
  if (call.status() == 0) return;
  ++statistics_.answers;
  statistics_.first_byte += first_byte;
  statistics_.longest_first_byte = std::max(statistics_.longest_first_byte, first_byte);
}

}  // namespace millrace
