#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace millrace {

/// When a request that reads is slow beside those before it, and is sent a second time: "hedged requests" (J. Dean and
/// L. A. Barroso, The Tail at Scale, CACM 56(2), 2013). Of one host. One thread.
class HedgePolicy {
 public:
  /// `share`: of requests, the most that are sent a second time, and a few more; 0: none.
  explicit HedgePolicy(double share) : share_(share) {}

  /// An answer that came whole, of so many bytes: how long it took to its first byte, and from there to its end.
  void note(size_t bytes, std::chrono::nanoseconds first_byte, std::chrono::nanoseconds body);

  /// When the first byte should have come, after the request was sent: three times the 95th percentile of the last
  /// answers, at least 200 ms and at most 5 s.
  [[nodiscard]] std::chrono::nanoseconds first_byte_by() const { return first_byte_by_; }
  /// When all of a body should have come, after its first byte: three times as long as at the median rate of the last
  /// answers, at least a second.
  [[nodiscard]] std::chrono::nanoseconds body_by(size_t bytes) const;
  /// Whether one more may be sent a second time, which is counted.
  [[nodiscard]] bool take();

 private:
  static constexpr size_t kLast = 128;  // answers that are looked at
  static constexpr size_t kLeast = 16;  // of which so many must be there
  static constexpr double kMostLeft = 16;

  // Of numbers that are written over from the oldest on.
  struct Window {
    std::array<double, kLast> values = {};
    size_t count = 0;

    void add(double value) { values[count++ % kLast] = value; }
    [[nodiscard]] bool is_due() const { return count >= kLeast && count % 8 == 0; }
    [[nodiscard]] double quantile(double of) const;
  };

  const double share_;
  double left_ = 4;     // that may be sent a second time
  Window first_bytes_;  // seconds
  Window body_rates_;   // bytes/s
  std::chrono::nanoseconds first_byte_by_ = std::chrono::seconds(2);
  double body_rate_ = 0;  // 0: not known yet
};

}  // namespace millrace
