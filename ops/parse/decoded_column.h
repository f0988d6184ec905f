#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "millrace/formats/columnar/column_builder.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// `input` with the `bytes` scalar `feature` replaced by one of this type and shape. Throws `kInvalidArgument` naming
/// the operator when there is no such scalar or the shape has other than sizes and `kVaries`.
SchemaPtr decoded_schema(const Schema& input, const std::string& feature, DType dtype, const Shape& shape,
                         std::string_view operator_name);

/// Throws `kWrongShape` when a value of shape `found` is none of the feature's.
void check_decoded_shape(const FeatureSpec& feature, const Shape& found);

/// What was thrown while a value of the feature was decoded, as an error of the operator.
Error decoding_error(const FeatureSpec& feature, std::string_view operator_name, const ErrorException& failed);

/// Appends what the bytes of one element stand for, or throws.
using DecodeBytes = std::function<void(std::string_view bytes, ColumnBuilder& decoded)>;

/// Replaces one column of a block, element by element. What `decode` throws becomes the error of its element.
Block decode_column(const Block& block, const SchemaPtr& schema, size_t column, std::string_view operator_name,
                    BufferPool& pool, const DecodeBytes& decode);

}  // namespace millrace
