#include "millrace/formats/columnar/block_builder.h"

namespace millrace {

BlockBuilder::BlockBuilder(SchemaPtr schema, BufferPool& pool) : schema_(std::move(schema)), origins_(pool) {
  columns_.reserve(schema_->size());
  for (const FeatureSpec& feature : schema_->features()) columns_.emplace_back(pool, feature);
}

void BlockBuilder::append_with_errors(const Block& block, size_t first, size_t count, bool copied) {
  size_t next = first;
  const auto append_good_ones_before = [&](size_t end) {
    if (next < end) append_good(block, next, end - next, copied);
  };
  for (const ElementError& entry : block.errors()) {
    if (entry.element < first) continue;
    if (entry.element >= first + count) break;
    append_good_ones_before(entry.element);
    append_error(entry.error);
    next = entry.element + 1;
  }
  append_good_ones_before(first + count);
}

void BlockBuilder::append_error(std::shared_ptr<const Error> error) {
  for (ColumnBuilder& column : columns_) column.append_nothing();
  errors_.push_back({num_elements_, std::move(error)});
  ++num_elements_;
}

void BlockBuilder::truncate(size_t num_elements) {
  if (num_elements >= num_elements_) return;
  for (ColumnBuilder& column : columns_) column.truncate(num_elements);
  origins_.truncate(num_elements);
  num_elements_ = num_elements;
  while (!errors_.empty() && errors_.back().element >= num_elements) errors_.pop_back();
}

Block BlockBuilder::finish() {
  Block::Columns columns;
  columns.reserve(columns_.size());
  for (ColumnBuilder& column : columns_) columns.push_back(column.finish());
  Block block(schema_, std::move(columns), num_elements_);
  for (ElementError& entry : errors_) block.add_error(entry.element, std::move(entry.error));
  block.set_origins(origins_.finish(num_elements_));
  num_elements_ = 0;
  errors_.clear();
  return block;
}

Block BlockBuilder::split(size_t num_elements) {
  Block::Columns columns;
  columns.reserve(columns_.size());
  for (ColumnBuilder& column : columns_) columns.push_back(column.split(num_elements));
  Block block(schema_, std::move(columns), num_elements);
  std::vector<ElementError> later;
  for (ElementError& entry : errors_) {
    if (entry.element < num_elements) {
      block.add_error(entry.element, std::move(entry.error));
    } else {
      later.push_back({entry.element - num_elements, std::move(entry.error)});
    }
  }
  errors_ = std::move(later);
  block.set_origins(origins_.split(num_elements, num_elements_));
  num_elements_ -= num_elements;
  return block;
}

Block error_block(const SchemaPtr& schema, BufferPool& pool, std::shared_ptr<const Error> error, int64_t rows) {
  const BufferPool::Unlimited for_error;
  BlockBuilder builder(schema, pool);
  builder.append_error(std::move(error));
  Block block = builder.finish();
  block.rows_per_element = rows;
  return block;
}

}  // namespace millrace
