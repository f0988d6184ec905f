#pragma once

#include <string>
#include <string_view>

#include "millrace/formats/example/tensor_message.h"
#include "millrace/ops/format_arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

struct ParseTensorOptions {
  /// The most values that a tensor may have which its message does not spell out: a few bytes may stand for any number
  /// of equal values, and a block has many such tensors. Of strings also the most bytes that repeating the last one may
  /// add; of a tensor without values, the most rows, which are the sizes before its first 0. tf.io.serialize_tensor
  /// writes every value; tf.make_tensor_proto leaves out equal ones at the end. Default: 2^12
  int64_t max_filled_values = int64_t{1} << 12;

  static constexpr auto fields() {
    using A = ParseTensorOptions;
    return describe<A>("ParseTensorOptions", field::stream<&A::max_filled_values>);
  }
};

/// Reads serialized `tensorflow.TensorProto` messages (what tf.io.serialize_tensor writes) in place of a feature. Both
/// forms of content are read, `tensor_content` and the lists of values.
///
///     image bytes []  ->  parse_tensor("image", kFloat32, {kVaries, kVaries, 3})  ->  image float32 [?,?,3]
///
/// Which type comes out is the caller's choice among those that hold the values, as a `tf.cast` after tf.data's map:
///
/// | in the message | `dtype` | |
/// |---|---|---|
/// | float32, float16, bfloat16 | float32 | exactly |
/// | float64 | float32 | rounded to the nearest; a finite value beyond float32 is an error |
/// | bool, (u)int8 to (u)int64 | int32, int64 or uint8 | exactly; a value that does not fit is an error |
/// | string | bytes | |
///
/// A message of another type or shape, or that cannot be read, is the element's error; so are complex, quantized and
/// other types, and a tensor without values whose sizes other than 0 make more than 2^24 (`wrong_shape`): they cost
/// nothing in the message, and what pads or splits it would take memory for them.
class ParseTensorOperator final : public MapOperator {
 public:
  /// `feature`: one `bytes` value per element. `dtype`, `shape`: of the tensors; `kVaries` where sizes differ.
  ParseTensorOperator(const SchemaPtr& input, const std::string& feature, DType dtype, const Shape& shape,
                      const ParseTensorOptions& options = {});
  std::string_view name() const override { return "parse_tensor"; }
  OperatorTraits traits() const override {
    return {.is_nonblocking = true, .uses_row_numbers = false, .parses = Parses::kValues};
  }
  std::shared_ptr<const MapOperator> fused(std::span<const std::shared_ptr<const MapOperator>> run,
                                           const SchemaPtr& input) const override;
  Block apply(Block block, BufferPool& pool) const override;
  size_t column() const { return column_; }
  /// A message that is of the type and shape. Throws ErrorException.
  [[nodiscard]] TensorMessage read(std::string_view bytes, BufferPool& pool) const;

 private:
  size_t column_;
  ParseTensorOptions options_;
};

/// What `Dataset::parse_tensor` is called with.
struct ParseTensorArguments {
  std::string feature = {};
  DType dtype = DType::kInt64;
  Shape shape = {};
  ParseTensorOptions options = {};

  static constexpr auto fields() {
    using A = ParseTensorArguments;
    return describe<A>("parse_tensor", field::required<&A::feature>, field::required<&A::dtype>,
                       field::required<&A::shape>.as_shape(), field::inlined<&A::options>);
  }
};

}  // namespace millrace
