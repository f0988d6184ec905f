#pragma once

#include <memory>
#include <vector>

#include "millrace/formats/columnar/block.h"
#include "millrace/formats/columnar/column_builder.h"

namespace millrace {

/// Gathers elements, with their errors, from any number of blocks of one schema into a new block. Values are copied;
/// views of `bytes` features are not followed: the new block holds what they point into, each resource once.
///
///     BlockBuilder builder(schema, pool);
///     builder.append_range(first, 0, 3);
///     builder.append(second, 7);
///     Block gathered = builder.finish();   // four elements; the builder is empty again
///
/// Ordinals, epoch and rows per element of the new block are the caller's to set. One thread at a time.
class BlockBuilder {
 public:
  BlockBuilder(SchemaPtr schema, BufferPool& pool);

  void append(const Block& block, size_t element) { append_range(block, element, 1); }
  /// Elements [first, first + count) of `block`.
  void append_range(const Block& block, size_t first, size_t count) {
    if (!block.errors().empty()) return append_with_errors(block, first, count, /*copied=*/false);
    append_good(block, first, count, /*copied=*/false);
  }
  /// The same with `bytes` values copied too: nothing of `block` is kept alive.
  void append_copied(const Block& block, size_t first, size_t count) {
    append_with_errors(block, first, count, /*copied=*/true);
  }
  /// The origins of the next element, for whoever builds elements by column: `rows` of them.
  void append_origins(const Origin* origins, size_t rows, const std::shared_ptr<const ShardNames>& names) {
    origins_.append(origins, rows, rows, names, num_elements_);
  }
  /// An error in the place of an element.
  void append_error(std::shared_ptr<const Error> error);
  /// Drops all elements but the first `num_elements`.
  void truncate(size_t num_elements);

  /// The builder of one feature. Whoever appends to it appends one element to each of them, then says so.
  ColumnBuilder& column(size_t index) { return columns_[index]; }
  const ColumnBuilder& column(size_t index) const { return columns_[index]; }
  void added_elements(size_t count) { num_elements_ += count; }

  const SchemaPtr& schema() const { return schema_; }
  bool empty() const { return num_elements_ == 0; }
  size_t num_elements() const { return num_elements_; }
  int64_t byte_size() const {
    int64_t bytes = 0;
    for (const ColumnBuilder& column : columns_) bytes += column.byte_size();
    return bytes;
  }
  [[nodiscard]] Block finish();

  /// From here on elements hold what they need anew, so that they can be split off.
  void mark() {
    for (ColumnBuilder& column : columns_) column.mark();
  }
  /// The first `num_elements`, no fewer than there were at the last mark. The others stay in the builder without what
  /// only the first ones need: a stage that always carries some elements over must not keep every buffer it ever saw.
  [[nodiscard]] Block split(size_t num_elements);

 private:
  void append_with_errors(const Block& block, size_t first, size_t count, bool copied);
  void append_good(const Block& block, size_t first, size_t count, bool copied) {
    for (size_t c = 0; c < columns_.size(); ++c) {
      copied ? columns_[c].append_copied(block.column(c), first, count)
             : columns_[c].append(block.column(c), first, count);
    }
    append_origins(block, first, count);
    num_elements_ += count;
  }
  void append_origins(const Block& block, size_t first, size_t count) {
    const auto rows = static_cast<size_t>(block.rows_per_element);
    if (block.origins().empty() || block.origins().size() != rows * block.num_elements()) return;
    origins_.append(block.origins().data() + first * rows, count * rows, rows, block.origins().names(), num_elements_);
  }

  SchemaPtr schema_;
  std::vector<ColumnBuilder> columns_;
  size_t num_elements_ = 0;
  std::vector<ElementError> errors_;
  OriginsBuilder origins_;
};

/// A block of one element that is an error, and stands for `rows` rows.
[[nodiscard]] Block error_block(const SchemaPtr& schema, BufferPool& pool, std::shared_ptr<const Error> error,
                                int64_t rows = 1);

}  // namespace millrace
