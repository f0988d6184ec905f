#pragma once

#include "ops/operator.h"

namespace millrace {

/// The elements whose number in the input is `index` modulo `num_shards`: each of `num_shards` workers reads its own.
/// Errors of all elements are passed on. They have no number, and the elements passed over since the last one that went
/// out are counted again from there, as in tf.data.
class ShardOperator final : public StageOperator {
 public:
  /// `num_shards` at least 1, `index` in [0, num_shards).
  ShardOperator(SchemaPtr schema, int64_t num_shards, int64_t index);
  std::string_view name() const override { return "shard"; }
  std::string arguments() const override;
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  std::string unsavable() const override { return ""; }
  bool only_moves_rows() const override { return true; }
  bool never_waits() const override { return true; }
  bool hands_on_rows() const override { return true; }

 private:
  int64_t num_shards_;
  int64_t index_;
};

}  // namespace millrace
