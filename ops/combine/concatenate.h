#pragma once

#include "millrace/ops/arguments.h"
#include "millrace/ops/joined_schema.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// The inputs one after the other. Blocks pass as they are. An input is opened when the one before has ended: where
/// shuffles stand in two inputs, one buffer is held at a time.
///
/// Input i runs in the iteration `nested(i)`, so equal seeds in two inputs give other numbers. Rows get the epoch of
/// the whole: those that an input counts for itself are no epochs of the data.
class ConcatenateOperator final : public StageOperator {
 public:
  explicit ConcatenateOperator(std::span<const SchemaPtr> inputs) : ConcatenateOperator(JoinedSchema(kName, inputs)) {}
  std::string_view name() const override { return kName; }
  /// The sum; infinite with an infinite input, else unknown with an unknown one.
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true, .forwards_row_views = true, .checkpoint_blocker = "", .opens_one_input = true};
  }

 private:
  static constexpr std::string_view kName = "concatenate";
  explicit ConcatenateOperator(JoinedSchema inputs) : StageOperator(inputs.schema()), inputs_(std::move(inputs)) {}

  JoinedSchema inputs_;
};

/// What `Dataset::concatenate` is called with.
struct ConcatenateArguments {
  static constexpr auto fields() { return describe<ConcatenateArguments>("concatenate"); }
};

}  // namespace millrace
