#pragma once

#include <memory>
#include <string>
#include <variant>

#include "millrace/ops/batch/padding.h"
#include "millrace/ops/batch/ragged_batch.h"

namespace millrace {

/// How an operator that collects rows by a rule of its own makes batches of them: as `batch`, `padded_batch` or
/// `ragged_batch` does, with their options.
using BatchingOptions = std::variant<BatchOptions, PaddedBatchOptions, RaggedBatchOptions>;

/// The same for one operator, checked.
class Batching {
 public:
  /// Throws `kInvalidArgument`. `operator_name` begins every message, and outlives the object.
  Batching(std::string_view operator_name, const SchemaPtr& input, const BatchingOptions& options);

  bool drop_remainder() const { return drop_remainder_; }
  bool pads() const { return padding_ != nullptr; }
  /// The schema of batches of `rows` rows, or of how many there are (`kVaries`).
  SchemaPtr schema(int64_t rows) const;
  /// Makes batches of the schema `batches`. The pool of `context` must outlive it.
  BatchStage::Assemble assemble(const SchemaPtr& batches, const StageContext& context) const;

 private:
  std::string_view operator_name_;
  SchemaPtr input_;
  bool drop_remainder_;
  bool ragged_;
  std::shared_ptr<const Padding> padding_;  // null: not padded
};

}  // namespace millrace
