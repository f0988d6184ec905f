#pragma once

#include <span>
#include <string>

#include "millrace/formats/columnar/schema.h"

namespace millrace {

/// A serialized `tensorflow.TensorProto` of float32, the bytes of tf.io.serialize_tensor: type, shape and
/// `tensor_content`. `TensorMessage` and `parse_tensor` read it.
///
///     const std::string message = write_tensor(pixels, {height, width, 3});
///     example.add("image", std::array{std::string_view(message)});
///
/// Throws `kInvalidArgument` for another number of values than the shape has.
[[nodiscard]] std::string write_tensor(std::span<const float> values, const Shape& shape);

}  // namespace millrace
