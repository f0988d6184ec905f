#include "millrace/formats/example/tensor_writer.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/example/wire.h"

namespace millrace {

// tensorflow/core/framework/tensor.proto and tensor_shape.proto. Zeros are not written, as in every proto3.
std::string write_tensor(std::span<const float> values, const Shape& shape) {
  using namespace wire;
  static_assert(std::endian::native == std::endian::little, "the content is little-endian");
  constexpr uint32_t kType = 1;
  constexpr uint32_t kShape = 2;
  constexpr uint32_t kContent = 4;
  constexpr uint32_t kDimension = 2;
  constexpr uint32_t kSize = 1;
  constexpr uint64_t kFloat32 = 1;
  const bool is_negative = std::ranges::any_of(shape, [](int64_t size) { return size < 0; });
  if (is_negative || num_values(shape) != std::ssize(values)) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{} values for a tensor of shape {}", values.size(), to_string(shape)));
  }
  std::string dimensions;
  for (const int64_t size : shape) {
    std::string dimension;
    if (size != 0) {
      append_varint(dimension, tag(kSize, kVarint));
      append_varint(dimension, static_cast<uint64_t>(size));
    }
    append_varint(dimensions, tag(kDimension, kDelimited));
    append_varint(dimensions, dimension.size());
    dimensions += dimension;
  }
  std::string message;
  message.reserve(values.size_bytes() + dimensions.size() + 16);
  append_varint(message, tag(kType, kVarint));
  append_varint(message, kFloat32);
  append_varint(message, tag(kShape, kDelimited));
  append_varint(message, dimensions.size());
  message += dimensions;
  if (values.empty()) return message;
  append_varint(message, tag(kContent, kDelimited));
  append_varint(message, values.size_bytes());
  return message.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

}  // namespace millrace
