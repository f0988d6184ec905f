#pragma once

#include "ops/operator.h"

namespace millrace {

/// All elements but the first `count`; none when `count` is negative. An error inside the skipped part is passed on,
/// and the count starts again behind it, as in tf.data.
class SkipOperator final : public StageOperator {
 public:
  SkipOperator(SchemaPtr schema, int64_t count) : StageOperator(std::move(schema)), count_(count) {}
  std::string_view name() const override { return "skip"; }
  std::string arguments() const override { return "count=" + std::to_string(count_); }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  std::string unsavable() const override { return ""; }
  bool only_moves_rows() const override { return true; }
  bool never_waits() const override { return true; }
  bool hands_on_rows() const override { return true; }

 private:
  int64_t count_;
};

}  // namespace millrace
