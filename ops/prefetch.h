#pragma once

#include "ops/operator.h"

namespace millrace {

/// Lets what is before it run ahead of what follows, by up to `buffer_size` elements: the plan is cut here and the ring
/// behind the cut has that many slots more. The stream is the same without it.
class PrefetchOperator final : public StageOperator {
 public:
  /// `buffer_size`: 0 cuts the plan and adds no slots, as tf.data accepts it.
  PrefetchOperator(SchemaPtr input, int64_t buffer_size);
  std::string_view name() const override { return "prefetch"; }
  std::string arguments() const override;
  Cardinality cardinality(std::span<const Cardinality> inputs) const override { return inputs[0]; }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  int64_t buffer_size() const { return buffer_size_; }

 private:
  int64_t buffer_size_;
};

}  // namespace millrace
