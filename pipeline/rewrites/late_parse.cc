#include "pipeline/rewrites/late_parse.h"

#include <algorithm>

#include <fmt/format.h>

#include "ops/batch.h"
#include "ops/padded_batch.h"

namespace millrace {
namespace {

bool is_parse(const PlanNode& plan) {
  return plan.op->name() == "parse_example" || plan.op->name() == "parse_sequence_example";
}

// Whether rows that do not parse may pass through `plan` as good ones without a change in what comes before the first
// error. `shuffled`: a shuffle follows, which gives rows from behind the error before it.
bool may_cross(const PlanNode& plan, const PlanNode& parse, bool shuffled) {
  const std::string_view name = plan.op->name();
  if (name == "shuffle" || name == "repeat") return true;
  // An error row counts nothing in take, and begins another batch.
  if (shuffled) return false;
  if (name == "take") return true;
  if (!parse.inputs[0]->op->schema()->features()[0].shape.empty()) return false;
  if (name == "padded_batch") return true;
  // Rows whose shapes vary must be alike in a batch, and are not when they are parsed behind it.
  const std::vector<FeatureSpec>& parsed = parse.op->schema()->features();
  return name == "batch" &&
         std::all_of(parsed.begin(), parsed.end(), [](const FeatureSpec& f) { return f.has_fixed_shape(); });
}

// The same operator for raw records.
PlanNodePtr on_records(const PlanNodePtr& plan, const PlanNodePtr& parse) {
  const auto batch = std::dynamic_pointer_cast<const BatchOperator>(plan->op);
  if (batch == nullptr) return make_plan_node(parse->inputs, plan->make);
  return make_plan_node(parse->inputs, [size = batch->size(), options = batch->options(),
                                        later = std::dynamic_pointer_cast<const MapOperator>(parse->op)](
                                           std::span<const SchemaPtr> inputs) {
    return std::make_shared<const BatchOperator>(inputs[0], size, options, later);
  });
}

// A padded batch that parses the rows itself, where they vary; or null.
PlanNodePtr with_parse_inside(const PlanNodePtr& plan, const PlanNodePtr& parse) {
  const auto batch = std::dynamic_pointer_cast<const PaddedBatchOperator>(plan->op);
  if (batch == nullptr) return nullptr;
  return make_plan_node(parse->inputs, [batch, parse = std::dynamic_pointer_cast<const MapOperator>(parse->op)](
                                           std::span<const SchemaPtr> inputs) {
    return std::make_shared<const PaddedBatchOperator>(*batch, inputs[0], parse);
  });
}

bool swallows_errors(const PlanNode& plan) {
  return plan.op->name() == "ignore_errors" ||
         std::any_of(plan.inputs.begin(), plan.inputs.end(),
                     [](const PlanNodePtr& input) { return swallows_errors(*input); });
}

PlanNodePtr move_parse_down(const PlanNodePtr& plan, bool shuffled, std::vector<AppliedRewrite>& applied) {
  const bool shuffled_here = shuffled || plan->op->name() == "shuffle";
  std::vector<PlanNodePtr> inputs;
  inputs.reserve(plan->inputs.size());
  for (const PlanNodePtr& input : plan->inputs) inputs.push_back(move_parse_down(input, shuffled_here, applied));
  if (inputs.size() == 1 && is_parse(*inputs[0]) && may_cross(*plan, *inputs[0], shuffled)) {
    if (PlanNodePtr padded = with_parse_inside(plan, inputs[0])) {
      applied.push_back({"late_parse", fmt::format("{} inside {}: rows stay compact bytes until they are padded",
                                                   inputs[0]->op->name(), plan->op->name())});
      return padded;
    }
    applied.push_back(
        {"late_parse", fmt::format("{} after {}: rows stay compact bytes", inputs[0]->op->name(), plan->op->name())});
    return make_plan_node({on_records(plan, inputs[0])}, inputs[0]->make);
  }
  if (inputs == plan->inputs) return plan;
  return make_plan_node(std::move(inputs), plan->make);
}

}  // namespace

PlanNodePtr late_parse(const PlanNodePtr& plan, std::vector<AppliedRewrite>& applied) {
  // Where errors are swallowed and the stream goes on, a batch that loses a row ends elsewhere.
  return swallows_errors(*plan) ? plan : move_parse_down(plan, /*shuffled=*/false, applied);
}

}  // namespace millrace
