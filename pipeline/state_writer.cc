#include "millrace/pipeline/state_writer.h"

#include <chrono>
#include <utility>

#include "millrace/formats/storage/remote/routed_storage.h"

namespace millrace {

StateWriter::StateWriter(std::string path) : path_(std::move(path)), thread_([this] { run(); }) {}

StateWriter::~StateWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StateWriter::write(PipelineState state) {
  {
    const std::lock_guard lock(mutex_);
    rethrow();
    next_ = std::move(state);
  }
  changed_.notify_all();
}

void StateWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return failure_ != nullptr || (!next_ && !writing_); });
  rethrow();
  if (last_) written_.last_parts = last_->parts();
}

void StateWriter::rethrow() {
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

void StateWriter::run() {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || next_; });
    if (stopping_) return;
    PipelineState state = *std::exchange(next_, std::nullopt);
    writing_ = true;
    lock.unlock();
    std::exception_ptr failure;
    const auto begin = Clock::now();
    double seconds = 0;
    std::string bytes;
    try {
      bytes = state.serialize();
      seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      write_anywhere(path_, bytes);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    writing_ = false;
    if (failure != nullptr) {
      failure_ = failure;
    } else {
      if (written_.states++ == 0) written_.first_serialize_seconds = seconds;
      written_.last_bytes = bytes.size();
      written_.serialize_seconds += seconds;
      last_ = std::move(state);
    }
    changed_.notify_all();
    if (failure_ != nullptr) return;
  }
}

}  // namespace millrace
