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

/// When the caller gets the seat of a `WaitingCaller`, and when it loses it. All but `still` are looked at when so many
/// waits have passed, over all of them.
struct SeatLimits {
  static constexpr int kWaits = 32;
  /// The longest wait, in the mean, with which it gets the seat. Default: 1 ms
  int64_t longest_to_get_ns = 1'000'000;
  /// And with which it keeps it. Default: 2 ms
  int64_t longest_to_keep_ns = 2'000'000;
  /// It gets the seat when it was away for at most 1 part of the time in so many; 0: for any. Default: 8
  int64_t away_to_get = 8;
  /// And keeps it. Default: 4
  int64_t away_to_keep = 4;
  /// A caller that neither comes nor goes for so long works for itself, or waits for what no worker can hasten.
  /// Default: 4 ms
  std::chrono::nanoseconds still = std::chrono::milliseconds(4);
};

/// Where the caller of `next()` waits for its block: asleep, or at work. On as many cores as workers a thread that is
/// woken for each block takes the place of one of them, and gives it back a few microseconds later; so a caller that
/// does little else than wait is one of the workers itself, on the seat of a thread that sleeps meanwhile (`Seat`).
///
/// `wake` from any thread, the rest by the caller.
class WaitingCaller final : public Waker {
 public:
  void wake() noexcept override;
  bool wakes_thread() const noexcept override { return true; }
  void wait() { (void)wait_until_woken(nullptr); }
  /// False when it was not woken for so long. Work that goes on is not left for that, but that is soon over.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds most) { return wait_until_woken(&most); }

  /// One of the executor's workers, which must have a seat for it: a thread of its own, and the caller in its place
  /// while it waits most of the time and not long for any block. Whoever has the seat: as many threads work as the
  /// executor has. Lives shorter than both.
  class Seat {
   public:
    /// What to do every so often while the caller does not come out of the work that it does: the function is called by
    /// the seat's thread, and the caller stays until it returns. What it throws the caller's `wait` throws, once it
    /// comes out; of several the first. A wake before that is not lost.
    struct Look {
      std::chrono::nanoseconds after;
      std::function<void()> look;  // null: nothing
    };

    Seat(WaitingCaller& caller, Executor& executor, Look look = {}, const SeatLimits& limits = {});
    ~Seat();
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;

    /// Whether it is the caller's now. Any thread.
    bool is_callers() const;

   private:
    friend class WaitingCaller;
    enum class Owner { kThread, kCaller };

    void run();
    bool work(std::unique_lock<std::mutex>& lock);
    void wait_for_caller(std::unique_lock<std::mutex>& lock);
    void look_at(int64_t now);
    void give_to(Owner owner);

    WaitingCaller& caller_;
    const Look look_;
    const SeatLimits limits_;
    Executor::Stay thread_stay_;
    Executor::Stay caller_stay_;
    std::condition_variable changed_;
    // Below the caller's mutex.
    Owner owner_ = Owner::kThread;
    bool thread_works_ = false;
    bool caller_works_ = false;
    bool looking_ = false;
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
  Seat* seat_ = nullptr;
};

}  // namespace millrace
