#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace millrace {

/// A value and where it lies.
struct PlacedValue {
  size_t position = 0;
  float value = 0;
};

/// The first of some float32 values that is infinite or NaN, if there is one. The bytes need not be aligned; those of
/// a span of floats are `std::as_bytes(floats)`.
[[nodiscard]] std::optional<PlacedValue> first_not_finite(std::span<const std::byte> floats);

}  // namespace millrace
