#include "millrace/ops/parse/parse_tensor.h"

#include <fmt/format.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/ops/parse/decoded_column.h"
#include "millrace/ops/parse/parse_tensors.h"

namespace millrace {
namespace {

// Of the sizes other than 0 of a tensor without values.
constexpr int64_t kMostSizes = int64_t{1} << 24;

// Sizes beside a 0 take no bytes in the message, but memory in what pads the tensor or splits it into rows.
void check_no_values(const Shape& shape, int64_t most_rows) {
  int64_t product = 1;
  for (const int64_t size : shape) {
    if (size == 0) continue;
    if (product > kMostSizes / size) {
      throw ErrorException(ErrorCode::kWrongShape,
                           fmt::format("a tensor of shape {} has no values; its other sizes may make at most {}",
                                       to_string(shape), kMostSizes));
    }
    product *= size;
  }
  if (shape[0] == 0) return;
  int64_t rows = 1;
  for (size_t d = 0; shape[d] != 0; ++d) rows *= shape[d];
  if (rows > most_rows) {
    throw ErrorException(
        ErrorCode::kWrongShape,
        fmt::format("a tensor of shape {} has {} rows without values, at most {} are taken (max_filled_values)",
                    to_string(shape), rows, most_rows));
  }
}

// A few bytes stand for all of these.
void check_filled(const TensorMessage& tensor, int64_t most) {
  const int64_t missing = tensor.num_values() - tensor.num_stored();
  if (missing <= 0) return;
  if (tensor.num_values() > most) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("a tensor of shape {} with only {} of its values; at most {} are filled up "
                                     "(max_filled_values)",
                                     to_string(tensor.shape()), tensor.num_stored(), most));
  }
  if (const auto bytes = static_cast<int64_t>(tensor.last_string().size()); bytes > most / missing) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("a tensor of shape {} repeats a string of {} bytes {} times; at most {} bytes are "
                                     "filled up (max_filled_values)",
                                     to_string(tensor.shape()), bytes, missing, most));
  }
}

}  // namespace

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

std::shared_ptr<const MapOperator> ParseTensorOperator::fused(std::span<const std::shared_ptr<const MapOperator>> run,
                                                              const SchemaPtr& input) const {
  return ParseTensorsOperator::of(run, input);
}

TensorMessage ParseTensorOperator::read(std::string_view bytes, BufferPool& pool) const {
  const FeatureSpec& feature = (*schema())[column_];
  TensorMessage tensor = TensorMessage::read(bytes, pool);
  if (!tensor.fits(feature.dtype)) {
    throw ErrorException(ErrorCode::kParse,
                         fmt::format("the tensor holds {}, expected {}", tensor.type_name(), to_string(feature.dtype)));
  }
  check_decoded_shape(feature, tensor.shape());
  if (tensor.num_values() == 0) check_no_values(tensor.shape(), options_.max_filled_values);
  check_filled(tensor, options_.max_filled_values);
  return tensor;
}

Block ParseTensorOperator::apply(Block block, BufferPool& pool) const {
  const DType dtype = (*schema())[column_].dtype;
  return decode_column(block, schema(), column_, name(), pool, [&](std::string_view bytes, ColumnBuilder& decoded) {
    const TensorMessage tensor = read(bytes, pool);
    tensor.copy_to(dtype, decoded.append_space(tensor.num_values(), tensor.shape()));
  });
}

}  // namespace millrace
