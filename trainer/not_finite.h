#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "millrace/trainer/parameters.h"

namespace millrace {

/// A value and where it lies.
struct PlacedValue {
  size_t position = 0;
  float value = 0;
};

/// The first of some float32 values that is infinite or NaN, if there is one. The bytes need not be aligned; those of
/// a span of floats are `std::as_bytes(floats)`.
[[nodiscard]] std::optional<PlacedValue> first_not_finite(std::span<const std::byte> floats);

/// The first parameter of a buffer whose values are not all finite; null when all are. `included`: by parameter id, 0
/// for those that may be anything; empty: none may.
[[nodiscard]] const Parameter* parameter_not_finite(const ParameterLayout& layout, const FlatBuffer& buffer,
                                                    std::span<const uint8_t> included = {});

}  // namespace millrace
