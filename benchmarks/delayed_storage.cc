#include "benchmarks/delayed_storage.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

// Runs functions after the delay, in their order.
class DelayedStorage::Timer {
 public:
  explicit Timer(std::chrono::nanoseconds delay) : delay_(delay), thread_([this] { run(); }) {}

  void submit(std::function<void()> function) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back({Clock::now() + delay_, std::move(function)});
    }
    changed_.notify_one();
  }

  // Everything that waits is run at once.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  struct Waiting {
    Clock::time_point due;
    std::function<void()> function;
  };

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      if (waiting_.empty()) {
        if (stopping_) return;
        changed_.wait(lock);
        continue;
      }
      if (const Clock::time_point due = waiting_.front().due; !stopping_ && due > Clock::now()) {
        changed_.wait_until(lock, due);
        continue;
      }
      const std::function<void()> function = std::move(waiting_.front().function);
      waiting_.pop_front();
      lock.unlock();
      function();
      lock.lock();
    }
  }

  const std::chrono::nanoseconds delay_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

class DelayedStorage::DelayedFile final : public File, public std::enable_shared_from_this<DelayedFile> {
 public:
  DelayedFile(std::shared_ptr<File> of, std::shared_ptr<Timer> timer) : of_(std::move(of)), timer_(std::move(timer)) {}
  uint64_t size() const override { return of_->size(); }
  std::string version() const override { return of_->version(); }
  void read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink) override {
    timer_->submit([self = shared_from_this(), offset, destination, sink = std::move(sink)]() mutable {
      self->of_->read(offset, destination, std::move(sink));
    });
  }
  void cancel() override { of_->cancel(); }

 private:
  const std::shared_ptr<File> of_;
  const std::shared_ptr<Timer> timer_;
};

DelayedStorage::DelayedStorage(Storage& of, std::chrono::nanoseconds delay)
    : of_(of), timer_(std::make_shared<Timer>(delay)) {}

DelayedStorage::~DelayedStorage() { timer_->stop(); }

void DelayedStorage::open(const std::string& path, std::shared_ptr<OpenSink> sink) {
  struct Opened final : OpenSink {
    Opened(std::shared_ptr<OpenSink> to, std::shared_ptr<Timer> by) : sink(std::move(to)), timer(std::move(by)) {}
    void open_done(OpenResult result) noexcept override {
      if (result.file) result.file = std::make_shared<DelayedFile>(std::move(result.file), timer);
      sink->open_done(std::move(result));
    }
    const std::shared_ptr<OpenSink> sink;
    const std::shared_ptr<Timer> timer;
  };
  auto opened = std::make_shared<Opened>(std::move(sink), timer_);
  timer_->submit([this, path, opened = std::move(opened)] { of_.open(path, opened); });
}

}  // namespace millrace
