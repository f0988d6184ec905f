#include "millrace/ops/keep/elements_output.h"

#include <algorithm>
#include <utility>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

// What may wait to be written: enough for a disk that comes in bursts.
constexpr int64_t kShareOfBudget = 16;
constexpr int64_t kMostBytes = 32 << 20;

// What a function throws, or null.
template <typename Function>
std::shared_ptr<const Error> error_of(Function&& function) {
  try {
    function();
    return nullptr;
  } catch (...) {
    return std::make_shared<const Error>(current_exception_as_error());
  }
}

}  // namespace

ElementsOutput::ElementsOutput(const StageContext& context, std::unique_ptr<ElementsWriter> writer,
                               std::function<void(ElementsWriter& written)> commit)
    : executor_(context.disk->output),
      most_bytes_(std::clamp<int64_t>(context.memory == nullptr ? 0 : context.memory->budget() / kShareOfBudget,
                                      kBlockBytes, kMostBytes)),
      waits_for_network_(writer->is_remote()),
      commit_(std::move(commit)),
      wake_([&waker = context.waker] { waker.wake(); }),
      writer_(std::move(writer)) {}

bool ElementsOutput::has_room() {
  const std::lock_guard lock(mutex_);
  if (error_ != nullptr) throw ErrorException(*error_);
  waiting_ = bytes_ >= most_bytes_;
  return !waiting_;
}

bool ElementsOutput::finished() {
  const std::lock_guard lock(mutex_);
  if (error_ != nullptr) throw ErrorException(*error_);
  waiting_ = !finished_;
  return finished_;
}

void ElementsOutput::append(Block block) {
  {
    const std::lock_guard lock(mutex_);
    bytes_ += block.byte_size();
    blocks_.push_back(std::move(block));
    if (std::exchange(running_, true)) return;
  }
  submit(/*syncs=*/false);
}

void ElementsOutput::finish() {
  {
    const std::lock_guard lock(mutex_);
    finish_ = true;
    if (std::exchange(running_, true)) return;
  }
  submit(/*syncs=*/true);
}

void ElementsOutput::close() {
  wake_.close();
  {
    const std::lock_guard lock(mutex_);
    if (finish_) return;
    closed_ = true;
    blocks_.clear();
    if (std::exchange(running_, true)) return;
  }
  go_on(/*syncs=*/false);  // files are removed where files are written
}

// Not under the lock: an executor that is stopping runs it at once.
void ElementsOutput::submit(bool syncs) {
  if (syncs) {
    executor_.submit_sync([self = shared_from_this()] { self->run_sync(); });
  } else if (waits_for_network_) {
    executor_.submit_sync([self = shared_from_this()] { self->run(); });
  } else {
    executor_.submit([self = shared_from_this()] { self->run(); });
  }
}

// Where nothing may be thrown: on the thread that writes, and at the end.
void ElementsOutput::go_on(bool syncs) {
  const auto error = error_of([&] { submit(syncs); });
  if (error == nullptr) return;
  writer_.reset();
  {
    const std::lock_guard lock(mutex_);
    running_ = false;
  }
  done(0, error);
}

// One function at a time. Writes all that is there, up to the end of a file.
void ElementsOutput::run() {
  while (writer_ == nullptr || !writer_->has_full_files()) {
    Block block;
    {
      const std::lock_guard lock(mutex_);
      if (blocks_.empty() || error_ != nullptr) {
        if (finish_ && error_ == nullptr) break;
        if (closed_ || error_ != nullptr) writer_.reset();
        running_ = false;
        return;
      }
      block = std::move(blocks_.front());
      blocks_.pop_front();
    }
    const int64_t bytes = block.byte_size();
    const auto error = error_of([&] { writer_->append(block); });
    block = Block();
    done(bytes, error);
    executor_.moved();
  }
  go_on(/*syncs=*/true);
}

// Brings files to the disk, those that are full or, at the end, all.
void ElementsOutput::run_sync() {
  bool commits = false;
  {
    const std::lock_guard lock(mutex_);
    commits = finish_ && blocks_.empty() && error_ == nullptr;
  }
  if (!commits) {
    // There is no writer when an error came before the stage was finished.
    const auto error = writer_ == nullptr ? nullptr : error_of([&] { writer_->sync_full_files(); });
    if (error != nullptr) {
      writer_.reset();
      done(0, error);
    }
    return go_on(/*syncs=*/false);
  }
  const auto error = error_of([&] { commit_(*writer_); });
  writer_.reset();
  {
    const std::lock_guard lock(mutex_);
    running_ = false;
    finished_ = error == nullptr;
  }
  done(0, error);
}

// So many bytes do not wait any more.
void ElementsOutput::done(int64_t bytes, std::shared_ptr<const Error> error) {
  {
    const std::lock_guard lock(mutex_);
    bytes_ -= bytes;
    if (error != nullptr) error_ = std::move(error);
    if (error_ == nullptr && !finished_ && (finish_ || bytes_ >= most_bytes_)) return;
    if (!std::exchange(waiting_, false)) return;
  }
  wake_.call();
}

}  // namespace millrace
