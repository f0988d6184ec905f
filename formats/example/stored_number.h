#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace millrace {

// Numbers as TensorFlow and NumPy lay them in memory that are no numbers of C++.
struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};
struct Bool {
  uint8_t byte;
};

/// The number that is stored: every value of 16 bits is a float32, a byte other than 0 is 1.
inline float number_of(Bfloat16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

/// IEEE 754 binary16.
inline float number_of(Half value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1f;
  const uint32_t fraction = value.bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  // Below the normal numbers: multiples of 2^-24.
  if (exponent == 0) return (sign != 0 ? -1.0F : 1.0F) * static_cast<float>(fraction) * 0x1p-24F;
  return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

inline int32_t number_of(Bool value) { return value.byte != 0 ? 1 : 0; }

template <typename T>
T number_of(T value) {
  return value;
}

/// Whether a finite value would become infinite as a float32. Values from halfway between the largest float32 and what
/// would be the next one are rounded to infinity.
inline bool is_beyond_float32(double value) { return std::isfinite(value) && std::abs(value) >= 0x1.ffffffp127; }

}  // namespace millrace
