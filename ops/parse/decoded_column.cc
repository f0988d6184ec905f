#include "millrace/ops/parse/decoded_column.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace {

SchemaPtr decoded_schema(const Schema& input, const std::string& feature, DType dtype, const Shape& shape,
                         std::string_view operator_name) {
  std::vector<FeatureSpec> features = input.features();
  FeatureSpec& spec = features[static_cast<size_t>(input.column(feature))];
  if (spec.dtype != DType::kBytes || !spec.shape.empty()) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{}: feature '{}' is {} {}; one bytes value per element is needed (put it before "
                                     "batch)",
                                     operator_name, feature, to_string(spec.dtype), to_string(spec.shape)));
  }
  if (std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0 && size != kVaries; })) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{}: feature '{}': the shape {} has other than sizes and kVaries", operator_name,
                                     feature, to_string(shape)));
  }
  spec.dtype = dtype;
  spec.shape = shape;
  return std::make_shared<const Schema>(std::move(features));
}

void check_decoded_shape(const FeatureSpec& feature, const Shape& found) {
  bool fits = found.size() == feature.shape.size();
  for (size_t d = 0; fits && d < found.size(); ++d) fits = feature.shape[d] == kVaries || feature.shape[d] == found[d];
  if (fits) return;
  throw ErrorException(ErrorCode::kWrongShape,
                       fmt::format("has shape {}, expected {}", to_string(found), to_string(feature.shape)));
}

Error decoding_error(const FeatureSpec& feature, std::string_view operator_name, const ErrorException& failed) {
  Error error = failed.error();
  error.message = fmt::format("feature '{}': {}", feature.name, error.message);
  error.stage = operator_name;
  return error;
}

Block decode_column(const Block& block, const SchemaPtr& schema, size_t column, std::string_view operator_name,
                    BufferPool& pool, const DecodeBytes& decode) {
  const FeatureSpec& feature = (*schema)[column];
  const Column& from = block.column(column);
  ColumnBuilder builder(pool, feature);
  std::vector<ElementError> errors;
  for (size_t element = 0; element < block.num_elements(); ++element) {
    if (!block.errors().empty() && block.error_at(element) != nullptr) {
      builder.append_nothing();
      continue;
    }
    try {
      decode(from.values<std::string_view>(element)[0], builder);
    } catch (const ErrorException& failed) {
      builder.truncate(element);
      builder.append_nothing();
      Error error = decoding_error(feature, operator_name, failed);
      block.locate(element, error);
      errors.push_back({element, std::make_shared<const Error>(std::move(error))});
    }
  }
  Column made = builder.finish();
  if (made.dtype() == DType::kBytes) {
    from.holds().for_each([&made](const Ref<Resource>& resource) { made.hold(resource); });
  }
  Block::Columns columns = block.columns();
  columns[column] = std::move(made);
  Block decoded = block.with_columns(schema, std::move(columns));
  for (ElementError& entry : errors) decoded.add_error(entry.element, std::move(entry.error));
  return decoded;
}

}  // namespace millrace
