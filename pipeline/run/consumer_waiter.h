#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "millrace/ops/stage.h"
#include "millrace/pipeline/run/executor.h"

namespace millrace {

/// When a caller that waits in `next()` joins the workers on their reserved slot, and when it leaves it. Decided after
/// every `kWaits` waits, by their mean and by the share of the time that the caller spent elsewhere; `still` is checked
/// all the time.
struct HelpingPolicy {
  static constexpr int kWaits = 32;
  /// Joins if the mean wait was at most this. Default: 1 ms
  int64_t longest_to_get_ns = 1'000'000;
  /// Stays if the mean wait was at most this. Default: 2 ms
  int64_t longest_to_keep_ns = 2'000'000;
  /// Joins if the caller was away, at work of its own, for at most 1/`away_to_get` of the time; 0: however long.
  /// Default: 8
  int64_t away_to_get = 8;
  /// Stays if it was away for at most 1/`away_to_keep` of the time. Default: 4
  int64_t away_to_keep = 4;
  /// After this time without a call or a return the caller works for itself, or waits for what no worker can hasten.
  /// Default: 4 ms
  std::chrono::nanoseconds still = std::chrono::milliseconds(4);
};

/// Where the caller of `next()` waits for its block: asleep, or at work. On as many cores as workers a thread that is
/// woken for each block takes the place of one of them, and gives it back a few microseconds later; so a caller that
/// does little else than wait is one of the workers itself, on the reserved slot of a thread that sleeps meanwhile
/// (`ReservedSlot`).
///
/// `wake` from any thread, the rest by the caller.
class ConsumerWaiter final : public Waker {
 public:
  void wake() noexcept override;
  bool wakes_thread() const noexcept override { return true; }
  void wait() { (void)wait_until_woken(nullptr); }
  /// False when the time passed without a wake. Work that has begun is finished first, which does not take long.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds most) { return wait_until_woken(&most); }

  /// One of the executor's workers, which must have a reserved slot for it: a thread of its own, and the caller in its
  /// place while it waits most of the time and not long for any block. Whoever has the reserved slot: as many threads
  /// work as the executor has. Lives shorter than both.
  class ReservedSlot {
   public:
    /// What to do every so often while the caller does not come out of the work that it does: the function is called by
    /// the reserved slot's thread, and the caller stays until it returns. What it throws the caller's `wait` throws,
    /// once it comes out; of several the first. A wake before that is not lost.
    struct Polling {
      std::chrono::nanoseconds poll_interval;
      std::function<void()> on_poll;  // null: nothing
    };

    ReservedSlot(ConsumerWaiter& caller, Executor& executor, Polling polling = {}, const HelpingPolicy& limits = {});
    ~ReservedSlot();
    ReservedSlot(const ReservedSlot&) = delete;
    ReservedSlot& operator=(const ReservedSlot&) = delete;

    /// Whether it is the caller's now. Any thread.
    bool is_callers() const;

   private:
    friend class ConsumerWaiter;
    enum class Owner { kThread, kCaller };

    void run();
    bool work(std::unique_lock<std::mutex>& lock);
    void wait_for_caller(std::unique_lock<std::mutex>& lock);
    void look_at(int64_t now);
    void give_to(Owner owner);

    ConsumerWaiter& caller_;
    const Polling polling_;
    const HelpingPolicy limits_;
    Executor::ArenaSession thread_session_;
    Executor::ArenaSession caller_session_;
    std::condition_variable changed_;
    // Below the caller's mutex.
    Owner owner_ = Owner::kThread;
    bool thread_works_ = false;
    bool caller_works_ = false;
    bool is_polling_ = false;
    std::exception_ptr thrown_;  // by a look; the caller has not heard it yet
    bool stopping_ = false;
    uint64_t moves_ = 0;  // times that the caller came or went
    // Of the waits that are looked at together.
    int waits_ = 0;
    int64_t begin_ns_ = 0;
    int64_t waited_ns_ = 0;
    std::thread thread_;  // at last
  };

 private:
  bool wait_until_woken(const std::chrono::nanoseconds* most);
  bool work(std::unique_lock<std::mutex>& lock);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  ReservedSlot* reserved_slot_ = nullptr;
};

}  // namespace millrace
