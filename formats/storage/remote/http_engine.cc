#include "millrace/formats/storage/remote/http_engine.h"

#include <cstdlib>
#include <system_error>
#include <utility>

#include <openssl/crypto.h>
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

// What an engine runs aside.
class HttpEngine::Aside {
 public:
  void start(std::function<void(const std::stop_token&)> function) {
    const std::lock_guard lock(mutex_);
    if (is_ended_) throw std::system_error(std::make_error_code(std::errc::operation_canceled));
    std::erase_if(threads_, [](const Thread& one) { return one.is_done->load(); });
    threads_.splice(threads_.end(), start_thread(std::move(function)));
  }
  // Asks all to stop and waits for them, but for the one that calls.
  void end();
  // They are those of the process that was forked.
  void detach() {
    for (Thread& one : threads_) one.thread.detach();
  }

 private:
  std::mutex mutex_;
  Threads threads_;
  bool is_ended_ = false;
};

// What the process waits for when it exits: OpenSSL then takes back what it has for each thread, and a connection that
// another thread closes meanwhile is no longer there. Never destroyed, since engines end while static objects go.
class EngineThreads {
 public:
  // The child of a fork has one of its own.
  static EngineThreads& of_process() {
    static std::atomic<EngineThreads*> known = nullptr;
    EngineThreads* threads = known;
    while (threads == nullptr || threads->process_ != ::getpid()) {
      auto made = std::make_unique<EngineThreads>();
      if (known.compare_exchange_strong(threads, made.get())) return *made.release();
    }
    return *threads;
  }

  // OpenSSL's own handler was registered while the loop was made, so this one comes before it.
  void add(const std::shared_ptr<HttpLoop>& loop, const std::shared_ptr<HttpEngine::Aside>& aside) {
    const std::lock_guard lock(mutex_);
    std::erase_if(engines_, [](const auto& one) { return one.first.expired(); });
    engines_.emplace_back(loop, aside);
    if (is_ending_) loop->refuse();
    static const int registered = std::atexit([] { of_process().end(); });
    static_cast<void>(registered);
  }

  // `place` in `threads` is the thread that calls, and ends soon: its engine has ended on it.
  void add_ending(HttpEngine::Threads& threads, HttpEngine::Threads::iterator place) noexcept {
    HttpEngine::Threads ended;
    const std::lock_guard lock(mutex_);
    for (auto next = ending_.begin(); next != ending_.end();) {
      const auto here = next++;
      if (here->is_done->load()) ended.splice(ended.end(), ending_, here);
    }
    ending_.splice(ending_.end(), threads, place);
  }

 private:
  void end() {
    std::vector<std::pair<std::shared_ptr<HttpLoop>, std::shared_ptr<HttpEngine::Aside>>> engines;
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
      for (const auto& [loop, aside] : engines_) engines.emplace_back(loop.lock(), aside.lock());
    }
    for (const auto& [loop, aside] : engines) {
      if (loop != nullptr) loop->refuse();
    }
    for (const auto& [loop, aside] : engines) {
      if (aside != nullptr) aside->end();
    }
    for (const auto& [loop, aside] : engines) {
      if (loop != nullptr && !loop->runs_here()) loop->refuse_all();
    }
    engines.clear();
    HttpEngine::Threads ending;
    {
      const std::lock_guard lock(mutex_);
      ending.swap(ending_);
    }
    for (HttpEngine::Thread& one : ending) {
      if (one.thread.get_id() == std::this_thread::get_id()) one.thread.detach();
    }
  }

  const pid_t process_ = ::getpid();
  std::mutex mutex_;
  bool is_ending_ = false;
  std::vector<std::pair<std::weak_ptr<HttpLoop>, std::weak_ptr<HttpEngine::Aside>>> engines_;
  HttpEngine::Threads ending_;
};

HttpEngine::Threads HttpEngine::start_thread(std::function<void(const std::stop_token&)> function) {
  Threads started(1);
  started.front().is_done = std::make_shared<std::atomic<bool>>(false);
  started.front().thread = std::jthread(
      [is_done = started.front().is_done, function = std::move(function)](const std::stop_token& stop) mutable {
        std::exchange(function, nullptr)(stop);
        ::OPENSSL_thread_stop();
        *is_done = true;
      });
  return started;
}

HttpEngine::HttpEngine(HttpEngineOptions options)
    : process_(::getpid()),
      loop_(std::make_shared<HttpLoop>(std::move(options))),
      aside_(std::make_shared<Aside>()),
      thread_(start_thread([loop = loop_](const std::stop_token& /*stop*/) { loop->run(); })) {
  try {
    EngineThreads::of_process().add(loop_, aside_);
  } catch (...) {
    loop_->stop();
    throw;
  }
}

bool HttpEngine::has_ended() const { return loop_->is_refusing(); }

bool HttpEngine::is_of_other_process() const { return process_ != ::getpid(); }

HttpEngine::~HttpEngine() {
  if (is_of_other_process()) {
    // The connections are those of the process that was forked, and the threads are not here.
    aside_->detach();
    thread_.front().thread.detach();
    loop_->leak();
    return;
  }
  aside_->end();
  loop_->stop();
  if (loop_->runs_here()) EngineThreads::of_process().add_ending(thread_, thread_.begin());
  thread_.clear();  // waits for it
}

void HttpEngine::Aside::end() {
  Threads ending;  // is waited for last
  const std::lock_guard lock(mutex_);
  is_ended_ = true;
  for (auto next = threads_.begin(); next != threads_.end();) {
    const auto here = next++;
    here->thread.request_stop();
    // The last reference may have gone on it.
    const bool is_this_one = here->thread.get_id() == std::this_thread::get_id();
    if (is_this_one) EngineThreads::of_process().add_ending(threads_, here);
  }
  ending.swap(threads_);
}

void HttpEngine::run_aside(std::function<void(const std::stop_token&)> function) { aside_->start(std::move(function)); }

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
