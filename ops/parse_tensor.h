#pragma once

#include <string>
#include <string_view>

#include "ops/operator.h"

namespace millrace {

struct ParseTensorOptions {
  /// The most values that a tensor may have which its message does not spell out: a few bytes may stand for any number
  /// of equal values. Default: 2^24
  int64_t max_filled_values = int64_t{1} << 24;
};

/// Reads serialized `tensorflow.TensorProto` messages (what tf.io.serialize_tensor writes) in place of a feature. Both
/// forms of content are read, `tensor_content` and the lists of values.
///
///     image bytes []  ->  parse_tensor("image", kFloat32, {kVaries, kVaries, 3})  ->  image float32 [?,?,3]
///
/// A message of another type or shape, or that cannot be read, is the element's error. Integers of 8 and 16 bits and
/// bools come as int32.
class ParseTensorOperator final : public MapOperator {
 public:
  /// `feature`: one `bytes` value per element. `dtype`, `shape`: of the tensors; `kVaries` where sizes differ.
  ParseTensorOperator(const SchemaPtr& input, const std::string& feature, DType dtype, const Shape& shape,
                      const ParseTensorOptions& options = {});
  std::string_view name() const override { return "parse_tensor"; }
  std::string arguments() const override;
  Block apply(Block block, BufferPool& pool) const override;
  bool uses_row_numbers() const override { return false; }

 private:
  size_t column_;
  ParseTensorOptions options_;
};

}  // namespace millrace
