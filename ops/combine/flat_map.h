#pragma once

#include <string>

#include "millrace/ops/arguments.h"
#include "millrace/ops/combine/interleave.h"
#include "millrace/ops/combine/nested_function.h"
#include "millrace/ops/joined_schema.h"

namespace millrace {

/// All elements of the first input, then of the second, and so on: what `interleave` gives with a cycle of one, whose
/// next inputs are read ahead in lanes. Where only one may be open at a time, use `concatenate`.
class FlatMapInputsOperator final : public StageOperator {
 public:
  explicit FlatMapInputsOperator(std::span<const SchemaPtr> inputs)
      : FlatMapInputsOperator(JoinedSchema(kName, inputs)) {}
  std::string_view name() const override { return kName; }
  /// Unknown, as tf.data has it.
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::unknown(); }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true, .forwards_row_views = true, .checkpoint_blocker = ""};
  }
  size_t num_lanes() const override { return options_.num_lanes(); }

 private:
  static constexpr std::string_view kName = "flat_map";
  explicit FlatMapInputsOperator(JoinedSchema inputs);

  JoinedSchema inputs_;
  InterleaveOptions options_;
};

/// Makes a dataset of each element and gives their elements one after the other.
///
///     x: 2 0 3,  range(0, x)   ->   0 1,  0 1 2
///
/// The nested dataset runs in place, one at a time, in the iteration `nested(number of the element)`. Rows get the
/// epoch of the whole. Error elements pass; what the function throws becomes the error of its element.
///
/// State: the element whose dataset is open and the place in that dataset; the place of the next element.
class FlatMapOperator final : public StageOperator {
 public:
  explicit FlatMapOperator(NestedFunction function);
  std::string_view name() const override { return kName; }
  /// Unknown, as tf.data has it.
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::unknown(); }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override { return {.forwards_row_views = true, .checkpoint_blocker = ""}; }

 private:
  static constexpr std::string_view kName = "flat_map";

  NestedFunction function_;
};

/// What `Dataset::flat_map` is called with.
struct FlatMapInputsArguments {
  static constexpr auto fields() { return describe<FlatMapInputsArguments>("flat_map_inputs"); }
};

}  // namespace millrace
