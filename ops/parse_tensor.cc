#include "ops/parse_tensor.h"

#include <fmt/format.h>

#include "formats/columnar/block_builder.h"
#include "formats/example/tensor_message.h"
#include "ops/decoded_column.h"

namespace millrace {

ParseTensorOperator::ParseTensorOperator(const SchemaPtr& input, const std::string& feature, DType dtype,
                                         const Shape& shape, const ParseTensorOptions& options)
    : MapOperator(decoded_schema(*input, feature, dtype, shape, "parse_tensor")),
      column_(static_cast<size_t>(input->column(feature))),
      options_(options) {
  if (options.max_filled_values < 0) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("parse_tensor: max_filled_values must not be negative, "
                                     "not {}",
                                     options.max_filled_values));
  }
}

std::string ParseTensorOperator::arguments() const {
  const FeatureSpec& feature = (*schema())[column_];
  return fmt::format("feature={}, dtype={}, shape={}, max_filled_values={}", feature.name, to_string(feature.dtype),
                     to_string(feature.shape), options_.max_filled_values);
}

Block ParseTensorOperator::apply(Block block, BufferPool& pool) const {
  const FeatureSpec& feature = (*schema())[column_];
  return decode_column(block, schema(), column_, name(), pool, [&](std::string_view bytes, ColumnBuilder& decoded) {
    const TensorMessage tensor = TensorMessage::read(bytes);
    if (!tensor.fits(feature.dtype)) {
      throw ErrorException(ErrorCode::kParse, fmt::format("the tensor holds {}, expected {}", tensor.type_name(),
                                                          to_string(feature.dtype)));
    }
    check_decoded_shape(feature, tensor.shape());
    if (tensor.num_values() > tensor.num_stored() && tensor.num_values() > options_.max_filled_values) {
      throw ErrorException(ErrorCode::kWrongShape,
                           fmt::format("a tensor of shape {} with only {} of its values; at most "
                                       "{} are filled up",
                                       to_string(tensor.shape()), tensor.num_stored(), options_.max_filled_values));
    }
    tensor.copy_to(feature.dtype, decoded.append_space(tensor.num_values(), tensor.shape()));
  });
}

}  // namespace millrace
