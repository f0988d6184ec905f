#include "tests/support/injecting_storage.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <Random123/philox.h>

namespace millrace::test {
namespace {

using Clock = std::chrono::steady_clock;

// Runs functions when they are due, on one thread of its own.
class Timer {
 public:
  Timer() : thread_([this] { run(); }) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Runs what is waiting and joins the thread; later functions run at once.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }

  void schedule(Clock::duration delay, const void* owner, std::function<void()> function) {
    {
      const std::lock_guard lock(mutex_);
      if (!stopped_) {
        entries_.emplace(Clock::now() + delay, Entry{owner, std::move(function)});
        changed_.notify_one();
        return;
      }
    }
    function();
  }

  // What `owner` waits for becomes due now.
  void hurry(const void* owner) {
    {
      const std::lock_guard lock(mutex_);
      for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
        if (entry->second.owner != owner) continue;
        Entry moved = std::move(entry->second);
        entries_.erase(entry);
        entries_.emplace(Clock::time_point::min(), std::move(moved));
        break;
      }
    }
    changed_.notify_one();
  }

 private:
  struct Entry {
    const void* owner;
    std::function<void()> function;
  };

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (entries_.empty()) {
        if (stopping_) return;
        changed_.wait(lock);
      } else if (stopping_ || entries_.begin()->first <= Clock::now()) {
        const std::function<void()> function = std::move(entries_.begin()->second.function);
        entries_.erase(entries_.begin());
        lock.unlock();
        function();
        lock.lock();
      } else {
        const Clock::time_point due = entries_.begin()->first;  // a copy: the entry may go while waiting
        changed_.wait_until(lock, due);
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Clock::time_point, Entry> entries_;
  bool stopping_ = false;
  bool stopped_ = false;
  std::thread thread_;
};

struct Draw {
  std::array<uint32_t, 4> words;
  double share(size_t word) const { return words[word] * 0x1p-32; }
};

Draw draw(uint64_t seed, uint64_t stream, uint64_t call) {
  const r123::Philox4x32::ctr_type counter{{static_cast<uint32_t>(call), static_cast<uint32_t>(call >> 32),
                                            static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)}};
  const r123::Philox4x32::key_type key{{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  const auto words = r123::Philox4x32()(counter, key);
  return {{words[0], words[1], words[2], words[3]}};
}

// The stream of random numbers of a file: by its name without folders, so that temporary folders change nothing.
uint64_t stream_of(std::string_view path) {
  const std::string_view text = path.substr(path.rfind('/') + 1);
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

StorageError injected_error(const std::string& path, bool retriable) {
  return {.error = {.code = ErrorCode::kIo,
                    .message = retriable ? "injected retriable error" : "injected final error",
                    .shard = path},
          .retriable = retriable};
}

}  // namespace

struct InjectingStorage::Shared {
  explicit Shared(const InjectionOptions& chosen) : options(chosen) {
    if (options.max_latency.count() > 0) timer.emplace();
  }

  // Answers now or after the latency that `random` gives.
  void answer(double random, const void* owner, std::function<void()> function) {
    if (!timer) return function();
    const double span = static_cast<double>((options.max_latency - options.min_latency).count());
    timer->schedule(options.min_latency + std::chrono::microseconds(static_cast<int64_t>(random * span)), owner,
                    std::move(function));
  }

  const InjectionOptions options;
  std::atomic<uint64_t> opens{0};
  std::atomic<uint64_t> reads{0};
  std::atomic<uint64_t> retriable_errors{0};
  std::atomic<uint64_t> final_errors{0};
  std::atomic<uint64_t> short_reads{0};
  std::atomic<uint64_t> cancels{0};
  std::mutex opens_mutex;
  std::map<std::string, std::pair<uint64_t, int>> opens_of;  // calls and errors in a row
  std::optional<Timer> timer;
};

class InjectingStorage::InjectedFile final : public File, public std::enable_shared_from_this<InjectedFile> {
 public:
  InjectedFile(std::shared_ptr<Shared> shared, std::shared_ptr<File> wrapped, std::string path)
      : shared_(std::move(shared)), wrapped_(std::move(wrapped)), path_(std::move(path)), stream_(stream_of(path_)) {}

  uint64_t size() const override { return wrapped_->size(); }
  std::string version() const override { return wrapped_->version(); }
  ReadAdvice advice() const override { return shared_->options.advice; }

  void read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink) override {
    const InjectionOptions& options = shared_->options;
    const Draw random = draw(options.seed, stream_, num_calls_++);
    ++shared_->reads;
    // With the words of one draw: 0 latency, 1 retriable errors, 2 final errors, 3 length.
    if (random.share(1) < options.retriable_error_rate && num_errors_in_a_row_ < 2) {
      ++num_errors_in_a_row_;
      ++shared_->retriable_errors;
      answer(random, [path = path_, sink = std::move(sink)] {
        sink->read_done({.ok = false, .error = injected_error(path, true)});
      });
      return;
    }
    num_errors_in_a_row_ = 0;
    if (random.share(2) < options.final_error_rate) {
      ++shared_->final_errors;
      answer(random, [path = path_, sink = std::move(sink)] {
        sink->read_done({.ok = false, .error = injected_error(path, false)});
      });
      return;
    }
    if (options.max_read_bytes > 0) {
      const size_t most = 1 + random.words[3] % options.max_read_bytes;
      if (most < destination.size()) {
        destination = destination.first(most);
        ++shared_->short_reads;
      }
    }
    answer(random, [wrapped = wrapped_, offset, destination, sink = std::move(sink)] {
      wrapped->read(offset, destination, sink);
    });
  }

  void cancel() override {
    ++shared_->cancels;
    if (shared_->timer) shared_->timer->hurry(this);
    wrapped_->cancel();
  }

 private:
  void answer(const Draw& random, std::function<void()> function) {
    if (!shared_->timer) return function();
    // Keeps the file, but not the storage's timer, alive.
    shared_->answer(random.share(0), this, [self = shared_from_this(), function = std::move(function)] { function(); });
  }

  const std::shared_ptr<Shared> shared_;
  const std::shared_ptr<File> wrapped_;
  const std::string path_;
  const uint64_t stream_;
  uint64_t num_calls_ = 0;
  int num_errors_in_a_row_ = 0;
};

InjectingStorage::InjectingStorage(Storage& wrapped, InjectionOptions options)
    : wrapped_(wrapped), shared_(std::make_shared<Shared>(options)) {}

InjectingStorage::~InjectingStorage() {
  if (shared_->timer) shared_->timer->stop();  // here, not where the last file goes, maybe in the timer's own thread
}

void InjectingStorage::open(const std::string& path, std::shared_ptr<OpenSink> sink) {
  Draw random{};
  bool fails = false;
  {
    const std::lock_guard lock(shared_->opens_mutex);
    auto& [calls, errors] = shared_->opens_of[path];
    random = draw(shared_->options.seed ^ 0x6f70656eU, stream_of(path), calls++);
    fails = random.share(1) < shared_->options.retriable_error_rate && errors < 2;
    errors = fails ? errors + 1 : 0;
  }
  ++shared_->opens;
  if (fails) {
    ++shared_->retriable_errors;
    shared_->answer(random.share(0), nullptr,
                    [path, sink = std::move(sink)] { sink->open_done({.error = injected_error(path, true)}); });
    return;
  }
  class Wrap final : public OpenSink {
   public:
    Wrap(std::shared_ptr<Shared> shared, std::string path, std::shared_ptr<OpenSink> sink)
        : shared_(std::move(shared)), path_(std::move(path)), sink_(std::move(sink)) {}
    void open_done(OpenResult result) noexcept override {
      if (result.file) result.file = std::make_shared<InjectedFile>(shared_, std::move(result.file), path_);
      sink_->open_done(std::move(result));
    }

   private:
    std::shared_ptr<Shared> shared_;
    std::string path_;
    std::shared_ptr<OpenSink> sink_;
  };
  shared_->answer(random.share(0), nullptr,
                  [&wrapped = wrapped_, path, wrap = std::make_shared<Wrap>(shared_, path, std::move(sink))] {
                    wrapped.open(path, wrap);
                  });
}

std::vector<std::string> InjectingStorage::glob(const std::string& pattern) { return wrapped_.glob(pattern); }

InjectionCounts InjectingStorage::counts() const {
  return {.opens = shared_->opens,
          .reads = shared_->reads,
          .retriable_errors = shared_->retriable_errors,
          .final_errors = shared_->final_errors,
          .short_reads = shared_->short_reads,
          .cancels = shared_->cancels};
}

}  // namespace millrace::test
