#include "millrace/ops/combine/interleave_function.h"

#include <utility>

#include <fmt/format.h>

namespace millrace {

InterleaveFunctionOperator::InterleaveFunctionOperator(NestedFunction function, const InterleaveOptions& options)
    : StageOperator(function.schema), function_(std::move(function)), options_(options) {
  function_.check(name());
  options_.check(name());
  if (options.cycle_length > kMostLanes || options.read_ahead > kMostLanes - options.cycle_length) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("interleave: cycle_length and read_ahead together must be at most {} with a "
                                     "function, not {} and {}",
                                     kMostLanes, options.cycle_length, options.read_ahead));
  }
}

std::unique_ptr<Stage> InterleaveFunctionOperator::open(std::vector<OpenStage> inputs,
                                                        const StageContext& context) const {
  return std::make_unique<InterleaveStage>(
      schema(), std::make_unique<FunctionInputs>(name(), function_, std::move(inputs[0]), context), options_, context);
}

}  // namespace millrace
