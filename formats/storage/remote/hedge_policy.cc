#include "millrace/formats/storage/remote/hedge_policy.h"

#include <algorithm>

namespace millrace {
namespace {

using std::chrono::nanoseconds;
using Seconds = std::chrono::duration<double>;

constexpr double kTimes = 3;
constexpr nanoseconds kLeastFirstByte = std::chrono::milliseconds(200);
constexpr nanoseconds kMostFirstByte = std::chrono::seconds(5);
constexpr nanoseconds kLeastBody = std::chrono::seconds(1);
constexpr nanoseconds kUnknownBody = std::chrono::seconds(5);
constexpr size_t kLeastBytes = 256 << 10;  // of a body that says something about the rate

}  // namespace

double HedgePolicy::Window::quantile(double of) const {
  std::array<double, kLast> sorted = values;
  const size_t number = std::min(count, kLast);
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(of * static_cast<double>(number - 1));
  std::nth_element(sorted.begin(), at, sorted.begin() + static_cast<std::ptrdiff_t>(number));
  return *at;
}

void HedgePolicy::note(size_t bytes, nanoseconds first_byte, nanoseconds body) {
  left_ = std::min(left_ + share_, kMostLeft);
  first_bytes_.add(Seconds(first_byte).count());
  if (first_bytes_.is_due()) {
    const auto late = std::chrono::duration_cast<nanoseconds>(Seconds(kTimes * first_bytes_.quantile(0.95)));
    first_byte_by_ = std::clamp(late, kLeastFirstByte, kMostFirstByte);
  }
  if (bytes < kLeastBytes || body <= nanoseconds(0)) return;
  body_rates_.add(static_cast<double>(bytes) / Seconds(body).count());
  if (body_rates_.is_due()) body_rate_ = body_rates_.quantile(0.5);
}

nanoseconds HedgePolicy::body_by(size_t bytes) const {
  if (body_rate_ == 0) return kUnknownBody;
  const Seconds late(kTimes * static_cast<double>(bytes) / body_rate_);
  return std::max(std::chrono::duration_cast<nanoseconds>(late), kLeastBody);
}

bool HedgePolicy::take() {
  if (share_ == 0 || left_ < 1) return false;
  left_ -= 1;
  return true;
}

}  // namespace millrace
