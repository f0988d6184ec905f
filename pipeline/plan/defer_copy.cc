#include "millrace/pipeline/plan/defer_copy.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/ops/keep/decode_rows.h"

namespace millrace {
namespace {

bool is_fixed(const Schema& schema) {
  return std::all_of(schema.features().begin(), schema.features().end(), [](const FeatureSpec& feature) {
    return feature.has_fixed_shape() && feature.dtype != DType::kBytes;
  });
}

/// Operators on top of one that can give bytes, which move whole elements, the last first.
class Movers {
 public:
  // False when `node` may not stand between that and where rows become elements again.
  bool add(const PlanNodePtr& node) {
    const OperatorTraits traits = node->op->traits();
    const bool batch = traits.defer_parse == DeferParse::kInBatches;
    if (batch ? batches_ : !traits.is_row_passthrough) return false;
    batches_ = batches_ || batch;
    copies_ = copies_ || traits.copies_rows;
    nodes_.push_back(node);
    return true;
  }
  // Whether elements would be copied on the way.
  bool copy() const { return copies_; }
  const std::string_view last() const { return nodes_.front()->op->name(); }
  // On top of a plan of rows, which stand for `elements`.
  PlanNodePtr on_top_of(PlanNodePtr plan, const SchemaPtr& elements) const {
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
      // A batch is told what it becomes, so that its blocks are no larger then than others.
      const DeferredRows rows{.schema = nullptr, .parse = nullptr, .row_bytes = fixed_bytes(*elements)};
      plan = make_on_deferred_rows(**node, {std::move(plan)}, rows);
    }
    return plan;
  }

 private:
  std::vector<PlanNodePtr> nodes_;
  bool batches_ = false;
  bool copies_ = false;
};

// The plan with what ends in it as rows of bytes, or null.
PlanNodePtr with_rows_as_bytes(const PlanNodePtr& plan, std::vector<AppliedRewrite>& applied) {
  Movers movers;
  PlanNodePtr below = plan;
  while (below->inputs.size() == 1 && movers.add(below)) below = below->inputs[0];
  const SchemaPtr& elements = below->op->schema();
  if (!movers.copy() || below->inputs.size() != 1 || !is_fixed(*elements)) return nullptr;
  if (below->op->giving_bytes(below->inputs[0]->op->schema()) == nullptr) return nullptr;
  applied.push_back({"defer_copy", fmt::format("elements of {} are moved as bytes, and made after {}",
                                               below->op->name(), movers.last())});
  PlanNodePtr bytes = make_plan_node(
      {defer_copy(below->inputs[0], applied)},
      [op = below->op](std::span<const SchemaPtr> inputs) { return op->giving_bytes(inputs[0]); }, below->arguments);
  return make_plan_node({movers.on_top_of(std::move(bytes), elements)}, [elements](std::span<const SchemaPtr> inputs) {
    return std::make_shared<const DecodeRowsOperator>(inputs[0], elements);
  });
}

}  // namespace

PlanNodePtr defer_copy(const PlanNodePtr& plan, std::vector<AppliedRewrite>& applied) {
  if (PlanNodePtr moved = with_rows_as_bytes(plan, applied)) return moved;
  std::vector<PlanNodePtr> inputs;
  inputs.reserve(plan->inputs.size());
  for (const PlanNodePtr& input : plan->inputs) inputs.push_back(defer_copy(input, applied));
  if (inputs == plan->inputs) return plan;
  return make_plan_node(std::move(inputs), plan->make, plan->arguments);
}

}  // namespace millrace
