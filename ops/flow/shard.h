#pragma once

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// The elements whose number in the input is `index` modulo `num_shards`: each of `num_shards` workers reads its own.
/// Errors of all elements are passed on. They have no number, and the elements passed over since the last one that went
/// out are counted again from there, as in tf.data.
class ShardOperator final : public StageOperator {
 public:
  /// `num_shards` at least 1, `index` in [0, num_shards).
  ShardOperator(SchemaPtr schema, int64_t num_shards, int64_t index);
  std::string_view name() const override { return "shard"; }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true,
            .forwards_row_views = true,
            .checkpoint_blocker = "",
            .is_row_passthrough = true,
            .is_light = true};
  }

 private:
  int64_t num_shards_;
  int64_t index_;
};

/// What `Dataset::shard` is called with.
struct ShardArguments {
  int64_t num_shards = 0;
  int64_t index = 0;

  static constexpr auto fields() {
    using A = ShardArguments;
    return describe<A>("shard", field::required<&A::num_shards>, field::required<&A::index>);
  }
};

}  // namespace millrace
