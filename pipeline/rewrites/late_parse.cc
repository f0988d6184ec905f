#include "pipeline/rewrites/late_parse.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace millrace {
namespace {

bool moves_whole_rows(const Operator& op) {
  static constexpr std::array kNames = {"shuffle", "repeat", "take", "batch"};
  return std::find(kNames.begin(), kNames.end(), op.name()) != kNames.end();
}

bool swallows_errors(const PlanNode& plan) {
  return plan.op->name() == "ignore_errors" ||
         std::any_of(plan.inputs.begin(), plan.inputs.end(),
                     [](const PlanNodePtr& input) { return swallows_errors(*input); });
}

PlanNodePtr move_parse_down(const PlanNodePtr& plan, std::vector<AppliedRewrite>& applied) {
  std::vector<PlanNodePtr> inputs;
  inputs.reserve(plan->inputs.size());
  for (const PlanNodePtr& input : plan->inputs) inputs.push_back(move_parse_down(input, applied));
  if (inputs.size() == 1 && inputs[0]->op->name() == "parse_example" && moves_whole_rows(*plan->op)) {
    applied.push_back({"late_parse", fmt::format("parse_example after {}: rows stay compact bytes", plan->op->name())});
    return make_plan_node({make_plan_node(inputs[0]->inputs, plan->make)}, inputs[0]->make);
  }
  if (inputs == plan->inputs) return plan;
  return make_plan_node(std::move(inputs), plan->make);
}

}  // namespace

PlanNodePtr late_parse(const PlanNodePtr& plan, std::vector<AppliedRewrite>& applied) {
  // Where errors are swallowed and the stream goes on, a batch that loses a row ends elsewhere.
  return swallows_errors(*plan) ? plan : move_parse_down(plan, applied);
}

}  // namespace millrace
