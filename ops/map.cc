#include "ops/map.h"

#include <fmt/format.h>

#include "ops/element_progress.h"

namespace millrace {
namespace {

SchemaPtr mapped_schema(const Schema& input, const RowFunction& function) {
  const Schema written(function.writes);
  for (const FeatureSpec& feature : written.features()) {
    if (feature.is_ragged()) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("map: a row function cannot write the ragged feature '{}' {}; write vectors "
                                       "and use ragged_batch, or a block function",
                                       feature.name, to_string(feature.shape)));
    }
  }
  std::vector<FeatureSpec> features;
  if (function.keep_others) {
    for (const FeatureSpec& feature : input.features()) {
      const int replacement = written.find(feature.name);
      features.push_back(replacement < 0 ? feature : written[static_cast<size_t>(replacement)]);
    }
  }
  for (const FeatureSpec& feature : written.features()) {
    if (!function.keep_others || input.find(feature.name) < 0) features.push_back(feature);
  }
  return std::make_shared<const Schema>(std::move(features));
}

}  // namespace

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
    : MapOperator(mapped_schema(*input, function)),
      function_(std::move(function)),
      written_(std::make_shared<const Schema>(function_.writes)) {
  if (!function_.function) throw ErrorException(ErrorCode::kInvalidArgument, "map: no function given");
  for (const FeatureSpec& feature : schema()->features()) {
    kept_.push_back(written_->find(feature.name) < 0 ? input->find(feature.name) : -1);
  }
}

Block MapRowsOperator::apply(Block block, BufferPool& pool) const {
  RowWriter writer(written_, pool);
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
  Block written = writer.finish();
  Block::Columns columns;
  columns.reserve(schema()->size());
  for (size_t c = 0; c < schema()->size(); ++c) {
    columns.push_back(kept_[c] >= 0 ? block.column(static_cast<size_t>(kept_[c]))
                                    : written.column(static_cast<size_t>(written_->column((*schema())[c].name))));
  }
  Block mapped = block.with_columns(schema(), std::move(columns));
  for (const ElementError& entry : written.errors()) mapped.add_error(entry.element, entry.error);
  return mapped;
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
