#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

/// How often something is done: `100` (steps), `0` (when an epoch ends), `3epochs` (when each third one ends).
struct Interval {
  int64_t steps = 0;   ///< Default: 0, by epochs
  int64_t epochs = 1;  ///< Default: 1, each
};
[[nodiscard]] std::string to_string(const Interval& interval);
/// Throws `kInvalidArgument` naming the option, without its dashes.
[[nodiscard]] Interval parse_interval(std::string_view option, const std::string& text);

/// Steps of a warm-up: `200`, or as a share of those of its phase, `10%`.
struct Warmup {
  int64_t steps = 0;
  double share = 0;           ///< 0 to 1; of the phase's steps, rounded to the nearest. Default: 0, `steps` says it
  bool may_be_fewer = false;  ///< a phase of fewer steps is all warm-up. Default: false, it is refused
};
[[nodiscard]] std::string to_string(const Warmup& warmup);
/// Throws `kInvalidArgument` naming the option, without its dashes.
[[nodiscard]] Warmup parse_warmup(std::string_view option, const std::string& text);

}  // namespace millrace
