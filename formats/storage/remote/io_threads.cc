#include "millrace/formats/storage/remote/io_threads.h"

namespace millrace {

IoThreads::~IoThreads() { stop(); }

void IoThreads::submit(std::function<void()> function) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      // Whatever is thrown, either nothing was submitted or the function runs.
      if (threads_.empty()) {
        threads_.reserve(static_cast<size_t>(num_threads_));
        for (int i = 0; i < num_threads_; ++i) threads_.emplace_back([this] { run(); });
      }
      functions_.push_back(std::move(function));
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
    std::function<void()> function = std::move(functions_.front());
    functions_.pop_front();
    lock.unlock();
    function();
    function = nullptr;  // what it holds may be the last of something
    lock.lock();
  }
}

}  // namespace millrace
