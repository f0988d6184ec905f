#include "millrace/formats/storage/remote/http_engine.h"

#include <cstdlib>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "millrace/formats/storage/remote/http_loop.h"

namespace millrace {

HttpStatistics HttpStatistics::operator-(const HttpStatistics& earlier) const {
  return {.requests = requests - earlier.requests,
          .retries = retries - earlier.retries,
          .hedged = hedged - earlier.hedged,
          .bytes = bytes - earlier.bytes,
          .answers = answers - earlier.answers,
          .first_byte = first_byte - earlier.first_byte,
          .longest_first_byte = longest_first_byte};
}

HttpEngine::HttpEngine(HttpEngineOptions options)
    : process_(::getpid()),
      loop_(std::make_shared<HttpLoop>(std::move(options))),
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
