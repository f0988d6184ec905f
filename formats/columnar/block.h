#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "millrace/formats/columnar/column.h"
#include "millrace/formats/columnar/cursor.h"
#include "millrace/formats/columnar/iteration.h"
#include "millrace/formats/columnar/origin.h"
#include "millrace/formats/error.h"

namespace millrace {

/// An error that stands in the place of one element. The columns hold nothing of meaning at that place.
struct ElementError {
  size_t element = 0;  ///< index in the block
  std::shared_ptr<const Error> error = {};

  /// Whether it is no error, but the note of a part of a shard that was left out (`Error::skipped`).
  bool is_note() const { return error->skipped != nullptr; }
};

/// k elements of a dataset in columnar form: what moves along the edges of a pipeline. Raw records are a block with one
/// `bytes` column; after `batch` each element is a dense tensor per feature with the rows as first dimension.
/// The place in a shard that a row comes from goes with it.
/// A block is built by one thread and then read only; copies share the buffers.
class Block {
 public:
  using Columns = std::vector<Column>;

  Block() = default;
  /// Every column must have `num_elements` elements.
  Block(SchemaPtr schema, Columns columns, size_t num_elements)
      : schema_(std::move(schema)), columns_(std::move(columns)), num_elements_(num_elements) {}

  const SchemaPtr& schema() const { return schema_; }
  size_t num_elements() const { return num_elements_; }
  const Columns& columns() const { return columns_; }
  Columns& mutable_columns() { return columns_; }
  /// `index`: below the number of features, which is not checked.
  const Column& column(size_t index) const { return columns_[index]; }
  /// The column of a feature; throws `kInvalidArgument` when there is none.
  const Column& column(std::string_view name) const { return columns_[schema_->column(name)]; }

  /// Errors in order of their elements; mostly empty.
  const std::vector<ElementError>& errors() const { return errors_; }
  void add_error(size_t element, std::shared_ptr<const Error> error);
  /// Another error in the place of one that is there.
  void replace_error(size_t element, std::shared_ptr<const Error> error);
  /// The first error at `from` or after it, or null.
  const ElementError* next_error(size_t from) const;
  /// The error in the place of `element`, or null.
  std::shared_ptr<const Error> error_at(size_t element) const;

  /// Where the rows come from: `rows_per_element` for each element, or nothing where no row comes from a record. What
  /// gathers, cuts or moves elements keeps them; an operator that makes rows of its own need not.
  const Origins& origins() const { return origins_; }
  void set_origins(Origins origins) { origins_ = std::move(origins); }
  /// Puts shard, offset and record of a row of an element into an error that names none yet, where they are known.
  void locate(size_t element, size_t row, Error& error) const;
  /// The same for an element of one row. One of many rows names no place: which of them is to blame is not known.
  void locate(size_t element, Error& error) const {
    if (rows_per_element == 1) locate(element, 0, error);
  }

  /// Rows in each element: 1, or after `batch` the batch's rows.
  int64_t rows_per_element = 1;
  /// Ordinal of the first row: its number in the input of the operators that the block meets, from 0 in each iteration.
  int64_t first_row = 0;
  /// The iteration in which `first_row` counts.
  Iteration iteration;
  /// The epoch of the rows: how often the data had been repeated before them. A batch that spans epochs has its first
  /// row's.
  int64_t epoch = 0;
  /// The place of the first element in the stream of the stage that gave the block: what a checkpoint is made of.
  Cursor cursor;
  /// Makes the columns and errors of a block that has none yet, but all else: on whichever thread has the time. Null
  /// for most.
  std::function<Block()> assemble;
  /// The block with its columns.
  [[nodiscard]] Block assembled() &&;

  int64_t num_rows() const { return rows_per_element * static_cast<int64_t>(num_elements_); }
  int64_t byte_size() const;

  /// Elements [first, first + count) without a copy, with their errors, ordinals, epoch and cursor.
  [[nodiscard]] Block slice(size_t first, size_t count) const;
  /// The elements `indices`, in that order, copied; errors go with them. Ordinals, epoch and cursor are those of the
  /// block.
  [[nodiscard]] Block select(std::span<const size_t> indices, BufferPool& pool) const;
  /// The same elements with other columns.
  [[nodiscard]] Block with_columns(SchemaPtr schema, Columns columns) const;

 private:
  SchemaPtr schema_;
  Columns columns_;
  size_t num_elements_ = 0;
  std::vector<ElementError> errors_;
  Origins origins_;
};

/// The schema of raw records: one `bytes` scalar named `record`.
const SchemaPtr& record_schema();

}  // namespace millrace
