#include "millrace/pipeline/run/io_threads.h"

namespace millrace {

IoThreads::~IoThreads() { stop(); }

void IoThreads::submit(std::function<void()> function) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      functions_.push_back(std::move(function));
      if (threads_.empty()) {
        for (int i = 0; i < num_threads_; ++i) threads_.emplace_back([this] { run(); });
      }
      ready_.notify_one();
      return;
    }
  }
  function();
}

void IoThreads::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void IoThreads::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ready_.wait(lock, [this] { return stopping_ || !functions_.empty(); });
    if (functions_.empty()) return;
    const std::function<void()> function = std::move(functions_.front());
    functions_.pop_front();
    lock.unlock();
    function();
    lock.lock();
  }
}

}  // namespace millrace
