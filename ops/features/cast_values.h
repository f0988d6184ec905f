#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

namespace millrace {

/// Whether `To` has a place for the value at all; rounding is not asked for.
template <typename To, typename From>
constexpr bool fits(From value) {
  if constexpr (std::is_floating_point_v<To>) {
    return true;
  } else if constexpr (std::is_floating_point_v<From> && std::is_unsigned_v<To>) {
    static_assert(sizeof(To) == 1);
    return value > -1 && value < 256;
  } else if constexpr (std::is_floating_point_v<From>) {
    // Both limits are powers of two, so exact as floats; false for what is no number.
    constexpr From kLimit = static_cast<From>(uint64_t{1} << (sizeof(To) * 8 - 1));
    return value >= -kLimit && value < kLimit;
  } else {
    return std::in_range<To>(value);
  }
}

/// Casts all values as `static_cast` does, with the widest instructions of the machine, to as many of another type. One
/// that does not fit becomes 0. Returns whether all fit.
[[nodiscard]] bool cast_values(std::span<const int32_t> from, std::span<int64_t> to);
[[nodiscard]] bool cast_values(std::span<const int32_t> from, std::span<float> to);
[[nodiscard]] bool cast_values(std::span<const int64_t> from, std::span<int32_t> to);
[[nodiscard]] bool cast_values(std::span<const int64_t> from, std::span<float> to);
[[nodiscard]] bool cast_values(std::span<const float> from, std::span<int32_t> to);
[[nodiscard]] bool cast_values(std::span<const float> from, std::span<int64_t> to);
[[nodiscard]] bool cast_values(std::span<const uint8_t> from, std::span<int32_t> to);
[[nodiscard]] bool cast_values(std::span<const uint8_t> from, std::span<int64_t> to);
[[nodiscard]] bool cast_values(std::span<const uint8_t> from, std::span<float> to);
[[nodiscard]] bool cast_values(std::span<const int32_t> from, std::span<uint8_t> to);
[[nodiscard]] bool cast_values(std::span<const int64_t> from, std::span<uint8_t> to);
[[nodiscard]] bool cast_values(std::span<const float> from, std::span<uint8_t> to);

}  // namespace millrace
