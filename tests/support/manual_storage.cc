#include "tests/support/manual_storage.h"

#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <utility>

namespace millrace::test {

struct ManualStorage::Queue {
  enum class Kind { kOpen, kRead };

  // Calls `answer` at once while there are such left in `at_once`; else it waits.
  void ask(Kind kind, std::function<void()> answer) {
    {
      const std::lock_guard lock(mutex);
      if (kind == Kind::kRead) ++reads;
      int64_t& left = kind == Kind::kRead ? at_once.reads : at_once.opens;
      if (left <= 0) {
        waiting.push_back(std::move(answer));
        return;
      }
      --left;
    }
    answer();
  }

  std::mutex mutex;
  AtOnce at_once;
  ReadAdvice advice;
  std::deque<std::function<void()>> waiting;
  size_t reads = 0;
};

class ManualStorage::ManualFile final : public File {
 public:
  ManualFile(std::shared_ptr<Queue> queue, std::shared_ptr<File> wrapped)
      : queue_(std::move(queue)), wrapped_(std::move(wrapped)) {
    const std::lock_guard lock(queue_->mutex);
    advice_ = queue_->advice;
  }

  uint64_t size() const override { return wrapped_->size(); }
  std::string version() const override { return wrapped_->version(); }
  ReadAdvice advice() const override { return advice_; }
  void read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink) override {
    queue_->ask(Queue::Kind::kRead, [wrapped = wrapped_, offset, destination, sink = std::move(sink)] {
      wrapped->read(offset, destination, sink);
    });
  }

 private:
  const std::shared_ptr<Queue> queue_;
  const std::shared_ptr<File> wrapped_;
  ReadAdvice advice_;
};

ManualStorage::ManualStorage(Storage& wrapped, const AtOnce& at_once)
    : wrapped_(wrapped), queue_(std::make_shared<Queue>()) {
  queue_->at_once = at_once;
}

ManualStorage::~ManualStorage() {
  std::deque<std::function<void()>> dropped;  // what waits keeps the queue alive
  const std::lock_guard lock(queue_->mutex);
  dropped.swap(queue_->waiting);
}

void ManualStorage::open(const std::string& path, std::shared_ptr<OpenSink> sink) {
  class Wrap final : public OpenSink {
   public:
    Wrap(std::shared_ptr<Queue> queue, std::shared_ptr<OpenSink> sink)
        : queue_(std::move(queue)), sink_(std::move(sink)) {}
    void open_done(OpenResult result) noexcept override {
      if (result.file) result.file = std::make_shared<ManualFile>(queue_, std::move(result.file));
      sink_->open_done(std::move(result));
    }

   private:
    const std::shared_ptr<Queue> queue_;
    const std::shared_ptr<OpenSink> sink_;
  };
  queue_->ask(Queue::Kind::kOpen, [&wrapped = wrapped_, path, wrap = std::make_shared<Wrap>(queue_, std::move(sink))] {
    wrapped.open(path, wrap);
  });
}

std::vector<std::string> ManualStorage::glob(const std::string& pattern) { return wrapped_.glob(pattern); }

void ManualStorage::advise(const ReadAdvice& advice) {
  const std::lock_guard lock(queue_->mutex);
  queue_->advice = advice;
}

bool ManualStorage::answer_one(size_t place) {
  std::function<void()> answer;
  {
    const std::lock_guard lock(queue_->mutex);
    if (queue_->waiting.size() <= place) return false;
    const auto chosen = queue_->waiting.begin() + static_cast<std::ptrdiff_t>(place);
    answer = std::move(*chosen);
    queue_->waiting.erase(chosen);
  }
  answer();
  return true;
}

size_t ManualStorage::num_waiting() const {
  const std::lock_guard lock(queue_->mutex);
  return queue_->waiting.size();
}

void ManualStorage::answer_all() {
  while (answer_one()) {
  }
}

void ManualStorage::hold_reads() {
  const std::lock_guard lock(queue_->mutex);
  queue_->at_once.reads = 0;
}

void ManualStorage::release() {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->at_once = {.opens = kAll, .reads = kAll};
  }
  answer_all();
}

size_t ManualStorage::num_reads() const {
  const std::lock_guard lock(queue_->mutex);
  return queue_->reads;
}

}  // namespace millrace::test
