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

}  // namespace

PlanNodePtr late_parse(const PlanNodePtr& plan, std::vector<AppliedRewrite>& applied) {
  std::vector<PlanNodePtr> inputs;
  inputs.reserve(plan->inputs.size());
  for (const PlanNodePtr& input : plan->inputs) inputs.push_back(late_parse(input, applied));
  if (inputs.size() == 1 && inputs[0]->op->name() == "parse_example" && moves_whole_rows(*plan->op)) {
    applied.push_back({"late_parse", fmt::format("parse_example after {}: rows stay compact bytes", plan->op->name())});
    return make_plan_node({make_plan_node(inputs[0]->inputs, plan->make)}, inputs[0]->make);
  }
  if (inputs == plan->inputs) return plan;
  return make_plan_node(std::move(inputs), plan->make);
}

}  // namespace millrace
