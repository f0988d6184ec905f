#include "millrace/formats/columnar/block.h"

#include <algorithm>

#include "millrace/formats/columnar/block_builder.h"

namespace millrace {

void Block::add_error(size_t element, std::shared_ptr<const Error> error) {
  const auto place = std::lower_bound(errors_.begin(), errors_.end(), element,
                                      [](const ElementError& a, size_t b) { return a.element < b; });
  // The first error of an element is the one that counts.
  if (place != errors_.end() && place->element == element) return;
  errors_.insert(place, {element, std::move(error)});
}

void Block::replace_error(size_t element, std::shared_ptr<const Error> error) {
  for (ElementError& entry : errors_) {
    if (entry.element == element) entry.error = std::move(error);
  }
}

const ElementError* Block::next_error(size_t from) const {
  const auto place = std::lower_bound(errors_.begin(), errors_.end(), from,
                                      [](const ElementError& a, size_t b) { return a.element < b; });
  return place == errors_.end() ? nullptr : &*place;
}

std::shared_ptr<const Error> Block::error_at(size_t element) const {
  const ElementError* entry = next_error(element);
  return entry == nullptr || entry->element != element ? nullptr : entry->error;
}

void Block::locate(size_t element, size_t row, Error& error) const {
  const auto rows = static_cast<size_t>(rows_per_element);
  if (row < rows && origins_.size() == rows * num_elements_) origins_.locate(element * rows + row, error);
}

int64_t Block::byte_size() const {
  int64_t bytes = 0;
  for (const Column& column : columns_) bytes += column.byte_size();
  return bytes;
}

Block Block::slice(size_t first, size_t count) const {
  Columns columns;
  columns.reserve(columns_.size());
  for (const Column& column : columns_) columns.push_back(column.slice(first, count));
  Block part(schema_, std::move(columns), count);
  part.rows_per_element = rows_per_element;
  part.iteration = iteration;
  part.epoch = epoch;
  part.cursor = cursor.advanced_by(static_cast<int64_t>(first));
  const auto rows = static_cast<size_t>(rows_per_element);
  part.origins_ = origins_.size() == rows * num_elements_ ? origins_.slice(first * rows, count * rows) : Origins();
  part.first_row = first_row + rows_per_element * static_cast<int64_t>(first);
  for (const ElementError& entry : errors_) {
    if (entry.element >= first && entry.element < first + count) part.add_error(entry.element - first, entry.error);
  }
  return part;
}

Block Block::select(std::span<const size_t> indices, BufferPool& pool) const {
  BlockBuilder builder(schema_, pool);
  for (size_t c = 0; c < columns_.size(); ++c) builder.column(c).expect(columns_[c], indices.size());
  for (size_t i = 0; i < indices.size();) {
    size_t run = 1;
    while (i + run < indices.size() && indices[i + run] == indices[i] + run) ++run;
    builder.append_range(*this, indices[i], run);
    i += run;
  }
  Block chosen = builder.finish();
  chosen.rows_per_element = rows_per_element;
  chosen.first_row = first_row;
  chosen.iteration = iteration;
  chosen.epoch = epoch;
  chosen.cursor = cursor;
  return chosen;
}

Block Block::assembled() && {
  if (!assemble) return std::move(*this);
  Block made = assemble();
  made.rows_per_element = rows_per_element;
  made.first_row = first_row;
  made.iteration = iteration;
  made.epoch = epoch;
  made.cursor = std::move(cursor);
  made.origins_ = std::move(origins_);
  return made;
}

Block Block::with_columns(SchemaPtr schema, Columns columns) const {
  Block other(std::move(schema), std::move(columns), num_elements_);
  other.rows_per_element = rows_per_element;
  other.first_row = first_row;
  other.iteration = iteration;
  other.epoch = epoch;
  other.cursor = cursor;
  other.errors_ = errors_;
  other.origins_ = origins_;
  return other;
}

const SchemaPtr& record_schema() {
  static const SchemaPtr schema =
      std::make_shared<const Schema>(std::vector<FeatureSpec>{{.name = "record", .dtype = DType::kBytes, .shape = {}}});
  return schema;
}

}  // namespace millrace
