#pragma once

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// Lets what is before it run ahead of what follows: the plan is cut here, and the ring before the cut has
/// `buffer_size` slots on top of its own (4, or 2 × threads + 2 after maps; `explain()` shows the sum). A slot holds a
/// block: one batch where batches are large, several small elements otherwise. Inside the nested inputs of an
/// interleave, which run ahead in lanes of their own, it does nothing. The stream is the same without it.
class PrefetchOperator final : public StageOperator {
 public:
  /// Most slots that can be added: a limit that tells a mistake from a wish, before memory runs out.
  static constexpr int64_t kMaxBufferSize = 65536;
  /// `buffer_size`: blocks, 0 to `kMaxBufferSize`; 0 cuts the plan and adds no slots, as tf.data accepts it; -1,
  /// tf.data's AUTOTUNE, is the same, since the ring's own slots are enough for what follows not to wait.
  PrefetchOperator(SchemaPtr input, int64_t buffer_size);
  std::string_view name() const override { return "prefetch"; }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override { return inputs[0]; }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true,
            .forwards_row_views = true,
            .checkpoint_blocker = "",
            .prefetched = static_cast<size_t>(buffer_size_)};
  }
  int64_t buffer_size() const { return buffer_size_; }

 private:
  int64_t buffer_size_;
};

/// What `Dataset::prefetch` is called with.
struct PrefetchArguments {
  int64_t buffer_size = 0;

  static constexpr auto fields() {
    using A = PrefetchArguments;
    return describe<A>("prefetch", field::speed<&A::buffer_size>.required());
  }
};

}  // namespace millrace
