#pragma once

#include <atomic>
#include <chrono>

#include "millrace/formats/storage/remote/http_engine.h"

namespace millrace::test {

/// A clock that stands as long as anything goes on in the process, and is at the engine's next deadline when nothing
/// does: a stalled answer costs some milliseconds, and no deadline passes because a machine is busy. For one engine.
class IdleHttpClock final : public HttpClock {
 public:
  [[nodiscard]] std::chrono::nanoseconds now() const override { return std::chrono::nanoseconds(now_.load()); }
  [[nodiscard]] std::chrono::nanoseconds sleep_for(std::chrono::nanoseconds wait) const override;

 private:
  mutable std::atomic<int64_t> now_{0};
  // Of the engine's thread.
  mutable std::chrono::steady_clock::time_point asked_at_{};
  mutable std::chrono::nanoseconds wait_{0};
  mutable int quiet_ = 0;
};

}  // namespace millrace::test
