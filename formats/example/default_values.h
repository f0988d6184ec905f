#pragma once

#include <cstddef>

#include "millrace/formats/example/feature_description.h"

// Not for users.
namespace millrace::wire {

/// Writes the default of a feature of fixed length, which has one. `bytes` are views into the description.
inline void write_default(const FeatureDescription& feature, std::byte* destination) {
  const auto count = static_cast<size_t>(num_values(feature.shape));
  const auto write = [&]<typename To>(const auto& values, To*) {
    for (size_t i = 0; i < count; ++i) {
      reinterpret_cast<To*>(destination)[i] = static_cast<To>(values[i]);
    }
  };
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&feature.default_values)) {
    feature.dtype == DType::kInt32 ? write(*ints, static_cast<int32_t*>(nullptr))
                                   : write(*ints, static_cast<int64_t*>(nullptr));
  } else if (const auto* floats = std::get_if<std::vector<float>>(&feature.default_values)) {
    write(*floats, static_cast<float*>(nullptr));
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&feature.default_values)) {
    write(*strings, static_cast<std::string_view*>(nullptr));
  }
}

}  // namespace millrace::wire
