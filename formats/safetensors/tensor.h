#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// Element types of safetensors files that Millrace reads and writes.
enum class TensorType {
  kF32,   ///< `F32`
  kF64,   ///< `F64`
  kI32,   ///< `I32`
  kI64,   ///< `I64`
  kU8,    ///< `U8`
  kF16,   ///< `F16`: IEEE 754 half precision
  kBF16,  ///< `BF16`: the upper half of a float32
};

/// The name in the file: `F32`.
std::string_view to_string(TensorType type);
/// Bytes of one element.
size_t size_of(TensorType type);

template <typename T>
struct TensorTypeOf;
template <>
struct TensorTypeOf<float> {
  static constexpr TensorType value = TensorType::kF32;
};
template <>
struct TensorTypeOf<double> {
  static constexpr TensorType value = TensorType::kF64;
};
template <>
struct TensorTypeOf<int32_t> {
  static constexpr TensorType value = TensorType::kI32;
};
template <>
struct TensorTypeOf<uint8_t> {
  static constexpr TensorType value = TensorType::kU8;
};
template <>
struct TensorTypeOf<int64_t> {
  static constexpr TensorType value = TensorType::kI64;
};

/// One named tensor, row-major, whose bytes somebody else owns.
struct NamedTensor {
  std::string name = {};
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape = {};
  std::span<const std::byte> bytes = {};
};

}  // namespace millrace
