#include "millrace/ops/features/map.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/formats/columnar/column_builder.h"
#include "millrace/formats/error.h"
#include "millrace/ops/element_progress.h"

namespace millrace {
Error user_function_error(std::string_view operator_name, std::string_view function_name) {
  Error error;
  try {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (...) {
    error = current_exception_as_error();
  }
  error.message = fmt::format("{} '{}': {}", operator_name, function_name, error.message);
  // Of the function's own calls, say to a builder: nobody has given it to the pipeline.
  if (error.code == ErrorCode::kInvalidArgument) error.code = ErrorCode::kUserFunction;
  return error;
}

std::shared_ptr<const Error> user_function_error(std::string_view operator_name, std::string_view function_name,
                                                 const Block& block, size_t element) {
  Error error = user_function_error(operator_name, function_name);
  block.locate(element, error);
  return std::make_shared<const Error>(std::move(error));
}

MapRowsOperator::MapRowsOperator(const SchemaPtr& input, RowFunction function)
    : MapRowsOperator(WrittenFeatures("map", *input, function.writes, function.keep_others), std::move(function)) {}

MapRowsOperator::MapRowsOperator(WrittenFeatures features, RowFunction&& function)
    : MapOperator(features.schema()), features_(std::move(features)), function_(std::move(function)) {
  if (!function_.function) throw ErrorException(ErrorCode::kInvalidArgument, "map: no function given");
}

Block MapRowsOperator::apply(Block block, BufferPool& pool) const {
  const BufferPool::Unlimited of_user;
  RowWriter writer(features_.written(), pool);
  ElementProgress progress;
  for (size_t i = 0; i < block.num_elements(); ++i, progress.step()) {
    if (!block.errors().empty()) {
      if (auto error = block.error_at(i)) {
        writer.fail_element(std::move(error));
        continue;
      }
    }
    try {
      function_.function(RowView(block, i), writer);
      writer.end_element();
    } catch (...) {
      writer.fail_element(user_function_error(name(), function_.name, block, i));
    }
  }
  return features_.merged(block, writer.finish());
}

namespace {

// Operators that follow trust the schema: of a column that is none of its feature's they would read what is not there.
void check_column(const FeatureSpec& feature, const Column& column, size_t num_elements) {
  if (column.dtype() != feature.dtype || column.rank() != static_cast<int>(feature.shape.size())) {
    throw ErrorException(ErrorCode::kUserFunction, fmt::format("returned {} of rank {} as feature '{}', which is {} {}",
                                                               to_string(column.dtype()), column.rank(), feature.name,
                                                               to_string(feature.dtype), to_string(feature.shape)));
  }
  if (column.num_elements() != num_elements) {
    throw ErrorException(
        ErrorCode::kUserFunction,
        fmt::format("returned another number of elements as feature '{}' than it was given", feature.name));
  }
  if (column.is_ragged() != feature.is_ragged()) {
    throw ErrorException(
        ErrorCode::kUserFunction,
        fmt::format("returned what is {} as feature '{}', which is {} {}", column.is_ragged() ? "ragged" : "not ragged",
                    feature.name, to_string(feature.dtype), to_string(feature.shape)));
  }
}

// Whether an element has the sizes that the feature fixes, and ragged dimensions where it has them.
bool fits(const FeatureSpec& feature, const Column& column, size_t element) {
  if (!feature.is_ragged()) {
    for (size_t d = 0; d < feature.shape.size(); ++d) {
      if (feature.shape[d] != kVaries && feature.shape[d] != column.size(element, d)) return false;
    }
    return true;
  }
  const Shape shape = column.shape(element);
  return std::equal(shape.begin(), shape.end(), feature.shape.begin(),
                    [](int64_t size, int64_t wanted) { return size == wanted || (wanted == kVaries && size >= 0); });
}

// Elements whose shapes are not their features' become errors, and columns what their features say.
void take_wrong_shapes(const Schema& schema, Block& block, BufferPool& pool, std::string_view function_name) {
  for (size_t c = 0; c < schema.size(); ++c) {
    const FeatureSpec& feature = schema[c];
    Column& column = block.mutable_columns()[c];
    const bool all_fit = column.has_fixed_shape() && (block.num_elements() == 0 || fits(feature, column, 0));
    if (all_fit) continue;
    ColumnBuilder builder(pool, feature);
    for (size_t element = 0; element < block.num_elements(); ++element) {
      if (block.error_at(element) == nullptr && !fits(feature, column, element)) {
        block.add_error(element, std::make_shared<const Error>(
                                     Error{.code = ErrorCode::kWrongShape,
                                           .message = fmt::format("map '{}': returned {} as feature '{}', which is {}",
                                                                  function_name, to_string(column.shape(element)),
                                                                  feature.name, to_string(feature.shape))}));
      }
      if (!feature.has_fixed_shape()) continue;
      block.error_at(element) == nullptr ? builder.append(column, element) : builder.append_nothing();
    }
    if (feature.has_fixed_shape()) column = builder.finish();
  }
}

}  // namespace

MapBlocksOperator::MapBlocksOperator(BlockFunction function)
    : MapOperator(function.schema), function_(std::move(function)) {
  if (!function_.function) throw ErrorException(ErrorCode::kInvalidArgument, "map: no function given");
  if (function_.schema == nullptr) throw ErrorException(ErrorCode::kInvalidArgument, "map: no schema given");
}

Block MapBlocksOperator::apply(Block block, BufferPool& pool) const {
  const BufferPool::Unlimited of_user;
  Block mapped = block.with_columns(schema(), {});
  const size_t num_elements = block.num_elements();
  try {
    Block returned = function_.function(std::move(block), pool);
    // Without the number of elements: messages are part of the stream, cuts into blocks are not.
    if (returned.num_elements() != num_elements) {
      throw ErrorException(ErrorCode::kUserFunction, "returned another number of elements than it was given");
    }
    if (returned.columns().size() != schema()->size()) {
      throw ErrorException(ErrorCode::kUserFunction, fmt::format("returned {} features; its schema has {}",
                                                                 returned.columns().size(), schema()->to_string()));
    }
    for (size_t c = 0; c < schema()->size(); ++c) check_column((*schema())[c], returned.column(c), num_elements);
    take_wrong_shapes(*schema(), returned, pool, function_.name);
    mapped = mapped.with_columns(schema(), std::move(returned.mutable_columns()));
    for (const ElementError& entry : returned.errors()) {
      if (mapped.error_at(entry.element) != nullptr) continue;
      Error error = *entry.error;
      mapped.locate(entry.element, error);
      mapped.add_error(entry.element, std::make_shared<const Error>(std::move(error)));
    }
  } catch (...) {
    const auto error = std::make_shared<const Error>(user_function_error(name(), function_.name));
    BlockBuilder nothing(schema(), pool);
    for (size_t i = 0; i < num_elements; ++i) nothing.append_error(error);
    Block failed = nothing.finish();
    mapped = mapped.with_columns(schema(), std::move(failed.mutable_columns()));
    for (size_t i = 0; i < num_elements; ++i) mapped.add_error(i, error);
  }
  return mapped;
}

}  // namespace millrace
