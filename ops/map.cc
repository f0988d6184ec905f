#include "ops/map.h"

#include <fmt/format.h>

#include "ops/element_progress.h"

namespace millrace {
Error user_function_error(std::string_view operator_name, std::string_view function_name) {
  const auto prefixed = [&](std::string_view what) {
    return fmt::format("{} '{}': {}", operator_name, function_name, what);
  };
  try {
    throw;
  } catch (const ErrorException& e) {
    Error error = e.error();
    error.message = prefixed(error.message);
    return error;
  } catch (const std::exception& e) {
    return {.code = ErrorCode::kUserFunction, .message = prefixed(e.what())};
  } catch (...) {
    return {.code = ErrorCode::kUserFunction, .message = prefixed("threw something that is no std::exception")};
  }
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
    } catch (const std::bad_alloc&) {
      throw;
    } catch (...) {
      writer.fail_element(user_function_error(name(), function_.name, block, i));
    }
  }
  return features_.merged(block, writer.finish());
}

MapBlocksOperator::MapBlocksOperator(BlockFunction function)
    : MapOperator(function.schema), function_(std::move(function)) {
  if (!function_.function) throw ErrorException(ErrorCode::kInvalidArgument, "map: no function given");
  if (function_.schema == nullptr) throw ErrorException(ErrorCode::kInvalidArgument, "map: no schema given");
}

Block MapBlocksOperator::apply(Block block, BufferPool& pool) const {
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
    for (size_t c = 0; c < schema()->size(); ++c) {
      const FeatureSpec& feature = (*schema())[c];
      if (returned.column(c).dtype() != feature.dtype ||
          returned.column(c).rank() != static_cast<int>(feature.shape.size())) {
        throw ErrorException(
            ErrorCode::kUserFunction,
            fmt::format("returned {} of rank {} as feature '{}', which is {} {}", to_string(returned.column(c).dtype()),
                        returned.column(c).rank(), feature.name, to_string(feature.dtype), to_string(feature.shape)));
      }
    }
    mapped = mapped.with_columns(schema(), std::move(returned.mutable_columns()));
    for (const ElementError& entry : returned.errors()) {
      if (mapped.error_at(entry.element) != nullptr) continue;
      Error error = *entry.error;
      mapped.locate(entry.element, error);
      mapped.add_error(entry.element, std::make_shared<const Error>(std::move(error)));
    }
  } catch (const std::bad_alloc&) {
    throw;
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
