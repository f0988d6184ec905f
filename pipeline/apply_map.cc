#include "pipeline/apply_map.h"

#include <exception>
#include <new>

#include "formats/columnar/block_builder.h"

namespace millrace {

std::shared_ptr<const Error> current_exception_as_error(std::string_view stage) {
  Error error;
  try {
    throw;
  } catch (const ErrorException& e) {
    error = e.error();
  } catch (const std::bad_alloc&) {
    error = {.code = ErrorCode::kOutOfMemory, .message = "the system has no more memory"};
  } catch (const std::exception& e) {
    error = {.code = ErrorCode::kUserFunction, .message = e.what()};
  } catch (...) {
    error = {.code = ErrorCode::kUserFunction, .message = "an exception that is no std::exception"};
  }
  if (error.stage.empty()) error.stage = stage;
  return std::make_shared<const Error>(std::move(error));
}

Block apply_map(const MapOperator& map, Block block, BufferPool& pool) noexcept {
  // What the map may leave half moved is remembered before.
  const size_t num_elements = block.num_elements();
  const int64_t rows_per_element = block.rows_per_element;
  const int64_t first_row = block.first_row;
  const Iteration iteration = block.iteration;
  const int64_t epoch = block.epoch;
  Cursor cursor = block.cursor;
  try {
    Block mapped = map.apply(std::move(block), pool);
    mapped.cursor = std::move(cursor);
    return mapped;
  } catch (...) {
    const auto error = current_exception_as_error(map.name());
    BlockBuilder builder(map.schema(), pool);
    for (size_t i = 0; i < num_elements; ++i) builder.append_error(error);
    Block failed = builder.finish();
    failed.rows_per_element = rows_per_element;
    failed.first_row = first_row;
    failed.iteration = iteration;
    failed.epoch = epoch;
    failed.cursor = std::move(cursor);
    return failed;
  }
}

}  // namespace millrace
