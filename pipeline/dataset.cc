#include "pipeline/dataset.h"

#include <fmt/format.h>

#include "pipeline/lowering.h"

namespace millrace {
namespace {

template <typename Op, typename... Arguments>
MakeOperator source(Arguments... arguments) {
  return [=](std::span<const SchemaPtr>) { return std::make_shared<const Op>(arguments...); };
}

}  // namespace

template <typename Op, typename... Arguments>
Dataset Dataset::then(Arguments... arguments) const {
  return Dataset(make_plan_node(
      {plan_}, [=](std::span<const SchemaPtr> inputs) { return std::make_shared<const Op>(inputs[0], arguments...); }));
}

Dataset Dataset::range(int64_t start, int64_t stop, int64_t step, std::string feature) {
  return Dataset(make_plan_node({}, source<RangeOperator>(start, stop, step, std::move(feature))));
}

Dataset Dataset::rows(std::vector<MemoryFeature> features) {
  return Dataset(make_plan_node({}, source<RowsOperator>(std::move(features))));
}

Dataset Dataset::interleave(const std::vector<Dataset>& inputs, const InterleaveOptions& options) {
  return from_operator(inputs, [options](std::span<const SchemaPtr> schemas) {
    if (schemas.empty()) throw ErrorException(ErrorCode::kInvalidArgument, "interleave: there are no inputs");
    for (const SchemaPtr& schema : schemas) {
      if (!(*schema == *schemas[0])) {
        throw ErrorException(ErrorCode::kInvalidArgument,
                             fmt::format("interleave: inputs have different features: {} and {}",
                                         schemas[0]->to_string(), schema->to_string()));
      }
    }
    return std::make_shared<const InterleaveOperator>(schemas[0], options);
  });
}

Dataset Dataset::from_operator(const std::vector<Dataset>& inputs, MakeOperator make) {
  std::vector<PlanNodePtr> plans;
  plans.reserve(inputs.size());
  for (const Dataset& input : inputs) plans.push_back(input.plan_);
  return Dataset(make_plan_node(std::move(plans), std::move(make)));
}

Dataset Dataset::batch(int64_t size, const BatchOptions& options) const { return then<BatchOperator>(size, options); }

Dataset Dataset::padded_batch(int64_t size, const PaddedBatchOptions& options) const {
  return then<PaddedBatchOperator>(size, options);
}

Dataset Dataset::prefetch(int64_t buffer_size) const { return then<PrefetchOperator>(buffer_size); }

std::string Dataset::explain(const StartOptions& options) const {
  std::vector<AppliedRewrite> applied;
  const PlanNodePtr rewritten = rewrite_plan(plan_, options.disabled_rewrites, applied);
  std::string text = "as written:\n" + print_plan(*plan_);
  text += "rewrites:\n";
  for (const AppliedRewrite& rewrite : applied) text += fmt::format("{}: {}\n", rewrite.name, rewrite.reason);
  if (applied.empty()) text += "none\n";
  text += "as it runs:\n" + print_plan(*rewritten);
  Executor executor(checked_threads(options.threads));
  text += LoweredPlan(executor, rewritten, {.ordered = options.ordered}).to_string();
  return text;
}

Pipeline Dataset::start(const StartOptions& options) const {
  std::vector<AppliedRewrite> applied;
  return {rewrite_plan(plan_, options.disabled_rewrites, applied), options};
}

}  // namespace millrace
