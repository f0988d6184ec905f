#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

struct ShuffleOptions {
  uint64_t seed = 0;                     ///< another seed, another order. Default: 0
  bool reshuffle_each_iteration = true;  ///< each epoch has its own order. Default: true

  static constexpr auto fields() {
    using A = ShuffleOptions;
    return describe<A>("ShuffleOptions", field::stream<&A::seed>, field::stream<&A::reshuffle_each_iteration>);
  }
};

/// Brings elements into a random order, as if a buffer of `buffer_size` of them were picked from at random. Which
/// element leaves when is decided by `ShuffleKeys`, a pure function of seed, epoch and the element's number in its
/// input. Data that fits the buffer comes out as a uniform permutation. Error elements move like any other. Elements of
/// two epochs mix only after a repeat.
///
/// Rows are copied into the stage's own memory: a view would keep the chunk it came in. Raw records are put there by
/// their source, where it can (`RowStore`); rows that a cache keeps as bytes stay where they are (`CachedRows`). About
/// `buffer_size` rows are held, now and then 2 √`buffer_size` more.
class ShuffleOperator final : public StageOperator {
 public:
  /// `occurrence`: how many shuffles stand before this one. Each has its own order, with the same seed too.
  ShuffleOperator(SchemaPtr schema, int64_t buffer_size, ShuffleOptions options = {}, uint64_t occurrence = 0);
  std::string_view name() const override { return "shuffle"; }
  OperatorTraits traits() const override {
    return {.is_nonblocking = true,
            .checkpoint_blocker = "",
            .is_row_passthrough = true,
            .reorders_rows = true,
            .copies_rows = true,
            .defer_parse = DeferParse::kAnywhere};
  }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override { return inputs[0]; }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  /// What `elements` of the input need: the rows of the buffer, where the schema fixes their size, and a
  /// third more, as they may take three quarters of the budget. 0 where nobody knows how many there are: a large buffer
  /// is how everything is shuffled.
  int64_t memory_needed(std::span<const Cardinality> inputs) const override;

 private:
  int64_t buffer_size_;
  ShuffleOptions options_;
  uint64_t occurrence_;
};

/// What `Dataset::shuffle` is called with.
struct ShuffleArguments {
  int64_t buffer_size = 0;
  ShuffleOptions options = {};

  static constexpr auto fields() {
    using A = ShuffleArguments;
    return describe<A>("shuffle", field::required<&A::buffer_size>, field::inlined<&A::options>);
  }
};

}  // namespace millrace
