#pragma once

#include <atomic>
#include <chrono>

#include "millrace/formats/storage/remote/http_engine.h"

namespace millrace::test {

/// A clock that stands until it is turned; the time of day goes with it. Whoever turns it says so to the engine
/// (`look_at_clock`).
class ManualHttpClock final : public HttpClock {
 public:
  [[nodiscard]] std::chrono::nanoseconds now() const override { return std::chrono::nanoseconds(now_.load()); }
  [[nodiscard]] std::chrono::nanoseconds sleep_for(std::chrono::nanoseconds /*wait*/) const override {
    return std::chrono::hours(1);
  }
  [[nodiscard]] std::chrono::system_clock::time_point wall_now() const override {
    return std::chrono::sys_days(std::chrono::year(2026) / 11 / 28) + std::chrono::hours(12) +
           std::chrono::floor<std::chrono::system_clock::duration>(now());
  }
  void turn(std::chrono::nanoseconds by) { now_ += by.count(); }

 private:
  std::atomic<int64_t> now_{0};
};

}  // namespace millrace::test
