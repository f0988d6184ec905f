#include "millrace/pipeline/run/apply_map.h"

#include "millrace/formats/columnar/block_builder.h"

namespace millrace {
namespace {

/// What is left of a block that could not be made: its place in the stream.
class Place {
 public:
  explicit Place(const Block& block)
      : num_elements_(block.num_elements()),
        rows_per_element_(block.rows_per_element),
        first_row_(block.first_row),
        iteration_(block.iteration),
        epoch_(block.epoch),
        cursor_(block.cursor) {}

  // In a `catch`: each element is this error.
  Block failed(const SchemaPtr& schema, std::string_view stage, BufferPool& pool) {
    const BufferPool::Unlimited for_error;
    Error of_all = current_exception_as_error(stage);
    // Which of them took too much is not known: nobody may drop the others.
    if (of_all.code == ErrorCode::kMemoryBudget && num_elements_ > 1) of_all.ends_stream = true;
    const auto error = std::make_shared<const Error>(std::move(of_all));
    BlockBuilder builder(schema, pool);
    for (size_t i = 0; i < num_elements_; ++i) builder.append_error(error);
    Block failed = builder.finish();
    failed.rows_per_element = rows_per_element_;
    failed.first_row = first_row_;
    failed.iteration = iteration_;
    failed.epoch = epoch_;
    failed.cursor = std::move(cursor_);
    return failed;
  }
  Cursor take_cursor() { return std::move(cursor_); }

 private:
  size_t num_elements_;
  int64_t rows_per_element_;
  int64_t first_row_;
  Iteration iteration_;
  int64_t epoch_;
  Cursor cursor_;
};

}  // namespace

Block apply_map(const MapOperator& map, Block block, BufferPool& pool) {
  Place place(block);
  try {
    Block mapped = map.apply(std::move(block), pool);
    mapped.cursor = place.take_cursor();
    return mapped;
  } catch (...) {
    return place.failed(map.schema(), map.name(), pool);
  }
}

Block assemble_block(Block block, std::string_view stage, BufferPool& pool) {
  Place place(block);
  const SchemaPtr schema = block.schema();
  try {
    return std::move(block).assembled();
  } catch (...) {
    return place.failed(schema, stage, pool);
  }
}

}  // namespace millrace
