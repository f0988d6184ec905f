#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/ops/arguments.h"
#include "millrace/ops/batch/group_stage.h"
#include "millrace/ops/batch/padding.h"

namespace millrace {

struct BucketOptions {
  /// Pad to the bucket's upper boundary minus one instead of the longest row: one shape for each bucket. It holds for
  /// every dimension that varies, except where a feature of `padding` has a length. Rows as long as the last boundary
  /// make their batch an error. Default: false
  bool pad_to_bucket_boundary = false;
  /// How batches are padded, and whether short ones at the end are dropped. Default: to the longest row, with zeros
  PaddedBatchOptions padding = {};

  static constexpr auto fields() {
    using A = BucketOptions;
    return describe<A>("BucketOptions", field::stream<&A::pad_to_bucket_boundary>, field::stream<&A::padding>);
  }
};

/// Batches rows of similar lengths together: little padding without sorting. A row of length n waits in the bucket
/// whose number is that of the boundaries at or below n; a bucket that has its batch size becomes a padded batch. Short
/// buckets come at the end, the shortest rows first. tf.data: `bucket_by_sequence_length`.
///
///     rows [1,2] [3] [4,5,6] [7,8] [], bucket_by_sequence_length({"tokens"}, {2}, {2, 2})
///     // [[1,2,0],[4,5,6]] [[3],[0]] [[7,8]]
///
/// Errors and notes go out in their places, and no bucket loses anything to them. State: where the oldest bucket that
/// is not empty began in the input, and how far after it each of the others did.
class BucketBySequenceLengthOperator final : public StageOperator {
 public:
  /// `features`: whose first dimension is the length; of several the longest counts. `batch_sizes` has one more than
  /// there are `boundaries`, which increase from 0 or more; without any there is one bucket.
  BucketBySequenceLengthOperator(SchemaPtr input, std::vector<std::string> features, std::vector<int64_t> boundaries,
                                 std::vector<int64_t> batch_sizes, BucketOptions options = {});
  std::string_view name() const override { return "bucket_by_sequence_length"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .checkpoint_blocker = "", .pads = true}; }
  /// As in tf.data: of an infinite input infinite, else unknown.
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  bool assembles_later() const override { return true; }

 private:
  void set_pad_buffered_rows(GroupStage::Rules& rules, BufferPool& pool) const;

  SchemaPtr input_schema_;
  std::vector<std::string> features_;
  std::vector<int64_t> boundaries_;
  std::vector<int64_t> batch_sizes_;
  bool pad_to_boundary_;
  Padding padding_;
  std::vector<size_t> columns_;  // of `features_`
};

/// What `Dataset::bucket_by_sequence_length` is called with.
struct BucketBySequenceLengthArguments {
  std::vector<std::string> features = {};
  std::vector<int64_t> boundaries = {};
  std::vector<int64_t> batch_sizes = {};
  BucketOptions options = {};

  static constexpr auto fields() {
    using A = BucketBySequenceLengthArguments;
    return describe<A>("bucket_by_sequence_length", field::required<&A::features>, field::required<&A::boundaries>,
                       field::required<&A::batch_sizes>, field::inlined<&A::options>);
  }
};

}  // namespace millrace
