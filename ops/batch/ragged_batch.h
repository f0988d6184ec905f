#pragma once

#include <memory>
#include <string>

#include "millrace/ops/arguments.h"
#include "millrace/ops/batch/batch.h"

namespace millrace {

struct RaggedBatchOptions {
  bool drop_remainder = false;  ///< drop the last batch when it is short. Default: false

  static constexpr std::string_view kAlternative = "ragged_batch";  // in BatchingOptions

  static constexpr auto fields() {
    using A = RaggedBatchOptions;
    return describe<A>("RaggedBatchOptions", field::stream<&A::drop_remainder>);
  }
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
  OperatorTraits traits() const override { return {.is_nonblocking = true, .checkpoint_blocker = ""}; }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  /// One batch.
  int64_t memory_needed(std::span<const Cardinality> inputs) const override {
    return batch_bytes(*schema(), size_, options_.drop_remainder, inputs[0]);
  }

 private:
  SchemaPtr input_schema_;
  size_t size_;
  RaggedBatchOptions options_;
};

/// What `Dataset::ragged_batch` is called with.
struct RaggedBatchArguments {
  int64_t size = 0;
  RaggedBatchOptions options = {};

  static constexpr auto fields() {
    using A = RaggedBatchArguments;
    return describe<A>("ragged_batch", field::required<&A::size>, field::inlined<&A::options>);
  }
};

}  // namespace millrace
