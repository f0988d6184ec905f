#include "tests/contract/pending_operator.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "millrace/formats/random/counter_rng.h"

namespace millrace::test {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<int64_t> injected_pending{0};

// A thread that wakes others later.
class Alarm {
 public:
  static Alarm& get() {
    static Alarm alarm;
    return alarm;
  }

  void wake_later(Clock::duration delay, const void* owner, Waker& waker) {
    {
      const std::lock_guard lock(mutex_);
      entries_.emplace(Clock::now() + delay, Entry{owner, &waker});
    }
    changed_.notify_all();
  }

  // Nobody is woken for `owner` any more when this returns.
  void forget(const void* owner) {
    std::unique_lock lock(mutex_);
    std::erase_if(entries_, [&](const auto& entry) { return entry.second.owner == owner; });
    changed_.wait(lock, [&] { return waking_for_ != owner; });
  }

 private:
  struct Entry {
    const void* owner;
    Waker* waker;
  };

  Alarm() : thread_([this] { run(); }) {}
  ~Alarm() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (entries_.empty()) {
        changed_.wait(lock);
      } else if (entries_.begin()->first > Clock::now()) {
        const Clock::time_point due = entries_.begin()->first;
        changed_.wait_until(lock, due);
      } else {
        const Entry entry = entries_.begin()->second;
        entries_.erase(entries_.begin());
        waking_for_ = entry.owner;
        lock.unlock();
        entry.waker->wake();
        lock.lock();
        waking_for_ = nullptr;
        changed_.notify_all();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Clock::time_point, Entry> entries_;
  const void* waking_for_ = nullptr;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

struct Injection {
  uint64_t seed;
  std::chrono::microseconds max_delay;
};

class PendingStage final : public Stage {
 public:
  PendingStage(std::unique_ptr<Stage> input, const Injection& injection, const StageContext& context)
      : input_(std::move(input)),
        injection_(injection),
        rng_(injection.seed, operator_id("with_pending"), context.iteration),
        waker_(context.waker) {}
  ~PendingStage() override { Alarm::get().forget(this); }

  Poll next(Block& out) override {
    const CounterRng::Words words = rng_.words(num_calls_++);
    if (uniform_below(words[0], 3) == 0) {
      ++injected_pending;
      const auto most = static_cast<uint32_t>(injection_.max_delay.count());
      Alarm::get().wake_later(std::chrono::microseconds(uniform_below(words[1], most + 1)), this, waker_);
      return Poll::kPending;
    }
    if (taken_ == block_.num_elements()) {
      taken_ = 0;
      block_ = Block();
      const Poll poll = input_->next(block_);
      if (poll != Poll::kBlock) return poll;
      block_.cursor = make_cursor("with_pending", {}, {block_.cursor});
    }
    const size_t left = block_.num_elements() - taken_;
    size_t count = left;
    if (uniform_below(words[2], 4) != 0) count = std::min<size_t>(left, 1 + uniform_below(words[3], 8));
    out = block_.slice(taken_, count);
    taken_ += count;
    return Poll::kBlock;
  }

 private:
  std::unique_ptr<Stage> input_;
  const Injection injection_;
  const CounterRng rng_;
  Waker& waker_;
  uint64_t num_calls_ = 0;
  Block block_;
  size_t taken_ = 0;
};

class PendingOperator final : public StageOperator {
 public:
  PendingOperator(SchemaPtr schema, Injection injection) : StageOperator(std::move(schema)), injection_(injection) {}
  std::string_view name() const override { return "with_pending"; }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override { return inputs[0]; }
  OperatorTraits traits() const override { return {.checkpoint_blocker = ""}; }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override {
    return std::make_unique<PendingStage>(open_input(inputs[0], context), injection_, context);
  }

 private:
  Injection injection_;
};

}  // namespace

Dataset with_pending(const Dataset& input, uint64_t seed, std::chrono::microseconds max_delay) {
  return Dataset::from_operator({input}, [=](std::span<const SchemaPtr> inputs) {
    return std::make_shared<PendingOperator>(inputs[0], Injection{.seed = seed, .max_delay = max_delay});
  });
}

int64_t num_injected_pending() { return injected_pending; }

}  // namespace millrace::test
