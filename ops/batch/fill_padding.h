#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>

namespace millrace {

/// Fills with one value. Where all its bytes are the same, as those of 0 and of -1 are, with the widest stores of the
/// machine: much of a padded batch is padding.
template <typename T>
void fill_padding(std::span<T> values, const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    if (std::all_of(bytes, bytes + sizeof(T), [&bytes](unsigned char byte) { return byte == bytes[0]; })) {
      if (!values.empty()) std::memset(values.data(), bytes[0], values.size_bytes());
      return;
    }
  }
  std::fill(values.begin(), values.end(), value);
}

}  // namespace millrace
