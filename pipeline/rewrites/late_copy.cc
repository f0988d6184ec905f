#include "pipeline/rewrites/late_copy.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "ops/batch.h"
#include "ops/cache.h"
#include "ops/decode_rows.h"

namespace millrace {
namespace {

bool is_fixed(const Schema& schema) {
  return std::all_of(schema.features().begin(), schema.features().end(), [](const FeatureSpec& feature) {
    return feature.has_fixed_shape() && feature.dtype != DType::kBytes;
  });
}

/// Operators on top of a cache that move whole elements, the last first.
class Movers {
 public:
  // False when `node` may not stand between the cache and where rows become elements again.
  bool add(const PlanNodePtr& node) {
    static constexpr std::array<std::string_view, 5> kOthers = {"shuffle", "repeat", "take", "skip", "shard"};
    const std::string_view name = node->op->name();
    const bool batch = name == "batch";
    if (batch ? batches_ : std::find(kOthers.begin(), kOthers.end(), name) == kOthers.end()) return false;
    batches_ = batches_ || batch;
    copies_ = copies_ || batch || name == "shuffle";
    nodes_.push_back(node);
    return true;
  }
  // Whether elements would be copied on the way.
  bool copy() const { return copies_; }
  const std::string_view last() const { return nodes_.front()->op->name(); }
  // On top of a plan of rows, which stand for `elements`.
  PlanNodePtr on_top_of(PlanNodePtr plan, const SchemaPtr& elements) const {
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
      plan = make_plan_node({std::move(plan)}, moved(**node, elements), (**node).arguments);
    }
    return plan;
  }

 private:
  // A batch is told what it becomes, so that its blocks are no larger then than others.
  static MakeOperator moved(const PlanNode& node, const SchemaPtr& elements) {
    const auto batch = std::dynamic_pointer_cast<const BatchOperator>(node.op);
    if (batch == nullptr) return node.make;
    return [size = batch->size(), options = batch->options(), elements](std::span<const SchemaPtr> inputs) {
      return std::make_shared<const BatchOperator>(inputs[0], size, options, /*later=*/nullptr, fixed_bytes(*elements));
    };
  }

  std::vector<PlanNodePtr> nodes_;
  bool batches_ = false;
  bool copies_ = false;
};

// The plan with what ends in it as rows of bytes, or null.
PlanNodePtr with_rows_as_bytes(const PlanNodePtr& plan, std::vector<AppliedRewrite>& applied) {
  Movers movers;
  PlanNodePtr below = plan;
  while (below->inputs.size() == 1 && movers.add(below)) below = below->inputs[0];
  if (!movers.copy() || dynamic_cast<const CacheOperator*>(below->op.get()) == nullptr) return nullptr;
  const SchemaPtr& elements = below->op->schema();
  if (!is_fixed(*elements)) return nullptr;
  applied.push_back(
      {"late_copy", fmt::format("elements of cache are moved as bytes, and made after {}", movers.last())});
  PlanNodePtr cache = make_plan_node(
      {late_copy(below->inputs[0], applied)},
      [](std::span<const SchemaPtr> inputs) {
        return std::make_shared<const CacheOperator>(inputs[0], /*as_bytes=*/true);
      },
      below->arguments);
  return make_plan_node({movers.on_top_of(std::move(cache), elements)}, [elements](std::span<const SchemaPtr> inputs) {
    return std::make_shared<const DecodeRowsOperator>(inputs[0], elements);
  });
}

}  // namespace

PlanNodePtr late_copy(const PlanNodePtr& plan, std::vector<AppliedRewrite>& applied) {
  if (PlanNodePtr moved = with_rows_as_bytes(plan, applied)) return moved;
  std::vector<PlanNodePtr> inputs;
  inputs.reserve(plan->inputs.size());
  for (const PlanNodePtr& input : plan->inputs) inputs.push_back(late_copy(input, applied));
  if (inputs == plan->inputs) return plan;
  return make_plan_node(std::move(inputs), plan->make, plan->arguments);
}

}  // namespace millrace
