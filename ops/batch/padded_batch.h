#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "millrace/ops/arguments.h"
#include "millrace/ops/batch/padding.h"

namespace millrace {

/// Gathers `size` elements into one and pads: scalars are stacked as `batch` does; vectors are padded to the length
/// asked for, and so are features of higher rank in the outermost dimension that varies; in all others they are padded
/// to the largest of the batch. A batch with too long a row is an error, and so is one that would become too large: see
/// Padding.
///
/// tf.data: `padded_batch`, whose `padded_shapes` say the same by feature and dimension. A `padded_shapes` of `[n]` for
/// the vectors and None for the rest is a length of their own here: `.features = {{"tokens", {.length =
/// PadLength::fixed(n)}}}`; None and -1 are `PadLength::longest()`.
///
///     rows [1,2] [3] [] [4,5,6], padded_batch(2, {.value = -1})   // [[1,2],[3,-1]] [[-1,-1,-1],[4,5,6]]
class PaddedBatchOperator final : public StageOperator {
 public:
  PaddedBatchOperator(const SchemaPtr& input, int64_t size, PaddedBatchOptions options = {});
  /// As `other`, which stands after `first`, but for what `first` takes: rows go through it when their batch is
  /// padded. What is an error then is the batch's.
  PaddedBatchOperator(const PaddedBatchOperator& other, SchemaPtr input, std::shared_ptr<const MapOperator> first);
  std::string_view name() const override { return "padded_batch"; }
  std::string remark() const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true, .checkpoint_blocker = "", .defer_parse = DeferParse::kInside, .pads = true};
  }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  bool assembles_later() const override { return true; }
  /// One batch.
  int64_t memory_needed(std::span<const Cardinality> inputs) const override {
    return batch_bytes(*schema(), size_, padding_.options().drop_remainder, inputs[0]);
  }
  std::shared_ptr<const Operator> of_deferred_rows(const DeferredRows& rows) const override;

 private:
  PaddedBatchOperator(SchemaPtr input, int64_t size, Padding padding);

  SchemaPtr input_schema_;
  size_t size_;
  Padding padding_;
  std::shared_ptr<const MapOperator> first_;  // or null
};

/// What `Dataset::padded_batch` is called with.
struct PaddedBatchArguments {
  int64_t size = 0;
  PaddedBatchOptions padding = {};

  static constexpr auto fields() {
    using A = PaddedBatchArguments;
    return describe<A>("padded_batch", field::required<&A::size>, field::stream<&A::padding>);
  }
};

}  // namespace millrace
