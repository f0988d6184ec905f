#include "millrace/ops/combine/flat_map.h"

#include <utility>

namespace millrace {
namespace {

// One turn for all of an input: blocks pass as they are.
constexpr InterleaveOptions kOneAfterTheOther{.cycle_length = 1, .block_length = size_t{1} << 62};

// A lane for each dataset would cost more than many of them have in them.
class InPlaceStage final : public Stage {
 public:
  InPlaceStage(const SchemaPtr& schema, std::unique_ptr<NestedInputs> inputs, const StageContext& context)
      : stage_(schema, std::move(inputs), one_at_a_time(), context.with(context.waker, lanes_)) {}
  Poll next(Block& out) override { return stage_.next(out); }

 private:
  static InterleaveOptions one_at_a_time() {
    InterleaveOptions options = kOneAfterTheOther;
    options.read_ahead = 0;
    return options;
  }

  InlineLanes lanes_;
  InterleaveStage stage_;
};

}  // namespace

FlatMapInputsOperator::FlatMapInputsOperator(JoinedSchema inputs)
    : StageOperator(inputs.schema()), inputs_(std::move(inputs)) {
  options_ = kOneAfterTheOther.of_inputs(inputs_.num_inputs());
}

std::unique_ptr<Stage> FlatMapInputsOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = inputs_.opener(i, std::move(inputs[i]));
  return std::make_unique<InterleaveStage>(schema(), std::make_unique<ListedInputs>(std::move(inputs)), options_,
                                           context);
}

FlatMapOperator::FlatMapOperator(NestedFunction function)
    : StageOperator(function.schema), function_(std::move(function)) {
  function_.check(kName);
}

std::unique_ptr<Stage> FlatMapOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  return std::make_unique<InPlaceStage>(
      schema(), std::make_unique<FunctionInputs>(kName, function_, std::move(inputs[0]), context), context);
}

}  // namespace millrace
