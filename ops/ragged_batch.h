#pragma once

#include <memory>
#include <string>

#include "ops/batch.h"

namespace millrace {

struct RaggedBatchOptions {
  bool drop_remainder = false;  ///< drop the last batch when it is short. Default: false
};

/// Gathers `size` elements into one without padding: where shapes vary from element to element, the batch is ragged
/// (`Column::row_splits` says where rows begin); features of one shape become a plain batch. tf.data: `ragged_batch`.
///
///     rows [1,2] [3] [] [4,5], ragged_batch(3)   // [[1,2],[3],[]] [[4,5]]   shape [?,ragged]
///
/// State: as of batch, the place of the batch's first row.
class RaggedBatchOperator final : public StageOperator {
 public:
  RaggedBatchOperator(SchemaPtr input, int64_t size, RaggedBatchOptions options = {});
  std::string_view name() const override { return "ragged_batch"; }
  bool never_waits() const override { return true; }
  std::string arguments() const override;
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  std::string unsavable() const override { return ""; }
  /// One batch, where the schema fixes its size.
  int64_t memory_needed() const override { return fixed_bytes(*schema()); }

 private:
  SchemaPtr input_schema_;
  size_t size_;
  RaggedBatchOptions options_;
};

}  // namespace millrace
