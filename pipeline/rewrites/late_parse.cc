#include "pipeline/rewrites/late_parse.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "ops/batch.h"
#include "ops/padded_batch.h"
#include "ops/parse_tensors.h"

namespace millrace {
namespace {

bool is_parse(const PlanNode& plan) {
  return plan.op->name() == "parse_example" || plan.op->name() == "parse_sequence_example";
}

/// What makes values of `bytes`, row by row, and so may stand behind what moves rows.
struct Parsing {
  std::vector<PlanNodePtr> inputs;             // of its first operator
  MakeOperator make;                           // all of it as one operator, of rows or of batches
  std::shared_ptr<const Arguments> arguments;  // of that operator; null: several as one
  std::shared_ptr<const MapOperator> op;       // the same where it stands
  bool of_batches = false;
  bool of_records = false;
};

// The parse_tensors that stand next to each other, down from `node`, in their order.
ParseTensorsOperator::Tensors tensors_down_from(const PlanNode* node, std::vector<PlanNodePtr>& inputs) {
  ParseTensorsOperator::Tensors tensors;
  while (true) {
    if (const auto one = std::dynamic_pointer_cast<const ParseTensorOperator>(node->op)) {
      if (!ParseTensorsOperator::takes(*one)) break;
      tensors.insert(tensors.begin(), one);
    } else if (const auto some = std::dynamic_pointer_cast<const ParseTensorsOperator>(node->op)) {
      tensors.insert(tensors.begin(), some->tensors().begin(), some->tensors().end());
    } else {
      break;
    }
    inputs = node->inputs;
    node = inputs[0].get();
  }
  return tensors;
}

// What is parsed last in `node`, if anything is.
std::optional<Parsing> parsing_in(const PlanNode& node) {
  Parsing parsing;
  if (is_parse(node)) {
    parsing.inputs = node.inputs;
    parsing.make = node.make;
    parsing.arguments = node.arguments;
    parsing.op = std::dynamic_pointer_cast<const MapOperator>(node.op);
    parsing.of_batches = !node.inputs[0]->op->schema()->features()[0].shape.empty();
    parsing.of_records = true;
    return parsing;
  }
  ParseTensorsOperator::Tensors tensors = tensors_down_from(&node, parsing.inputs);
  if (tensors.empty()) return std::nullopt;
  const SchemaPtr& input = parsing.inputs[0]->op->schema();
  parsing.of_batches = !(*input)[tensors.front()->column()].shape.empty();
  parsing.op = std::make_shared<const ParseTensorsOperator>(input, tensors);
  parsing.make = [tensors = std::move(tensors)](std::span<const SchemaPtr> inputs) {
    return std::make_shared<const ParseTensorsOperator>(inputs[0], tensors);
  };
  return parsing;
}

// Whether rows that do not parse may pass through `plan` as good ones without a change in what comes before the first
// error. `shuffled`: a shuffle follows, which gives rows from behind the error before it.
bool may_cross(const PlanNode& plan, const Parsing& parsing, bool shuffled) {
  const std::string_view name = plan.op->name();
  if (name == "shuffle" || name == "repeat") return true;
  // An error row counts nothing in take, and begins another batch.
  if (shuffled) return false;
  if (name == "take") return true;
  if (parsing.of_batches) return false;
  if (name == "padded_batch") return parsing.of_records;
  // Rows whose shapes vary must be alike in a batch, and are not when they are parsed behind it.
  const std::vector<FeatureSpec>& parsed = parsing.op->schema()->features();
  return name == "batch" &&
         std::all_of(parsed.begin(), parsed.end(), [](const FeatureSpec& f) { return f.has_fixed_shape(); });
}

// The same operator for what is not parsed yet.
PlanNodePtr before_parsing(const PlanNodePtr& plan, const Parsing& parsing) {
  const auto batch = std::dynamic_pointer_cast<const BatchOperator>(plan->op);
  if (batch == nullptr) return make_plan_node(parsing.inputs, plan->make, plan->arguments);
  return make_plan_node(
      parsing.inputs,
      [size = batch->size(), options = batch->options(), later = parsing.op](std::span<const SchemaPtr> inputs) {
        return std::make_shared<const BatchOperator>(inputs[0], size, options, later);
      },
      plan->arguments);
}

// A padded batch that parses the rows itself, where they vary; or null.
PlanNodePtr with_parse_inside(const PlanNodePtr& plan, const Parsing& parsing) {
  const auto batch = std::dynamic_pointer_cast<const PaddedBatchOperator>(plan->op);
  if (batch == nullptr) return nullptr;
  return make_plan_node(
      parsing.inputs,
      [batch, parse = parsing.op](std::span<const SchemaPtr> inputs) {
        return std::make_shared<const PaddedBatchOperator>(*batch, inputs[0], parse);
      },
      plan->arguments);
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
  const std::optional<Parsing> parsing = inputs.size() == 1 ? parsing_in(*inputs[0]) : std::nullopt;
  if (parsing && may_cross(*plan, *parsing, shuffled)) {
    if (PlanNodePtr padded = with_parse_inside(plan, *parsing)) {
      applied.push_back({"late_parse", fmt::format("{} inside {}: rows stay compact bytes until they are padded",
                                                   parsing->op->name(), plan->op->name())});
      return padded;
    }
    applied.push_back(
        {"late_parse", fmt::format("{} after {}: rows stay compact bytes", parsing->op->name(), plan->op->name())});
    return make_plan_node({before_parsing(plan, *parsing)}, parsing->make, parsing->arguments);
  }
  if (inputs == plan->inputs) return plan;
  return make_plan_node(std::move(inputs), plan->make, plan->arguments);
}

}  // namespace

PlanNodePtr late_parse(const PlanNodePtr& plan, std::vector<AppliedRewrite>& applied) {
  // Where errors are swallowed and the stream goes on, a batch that loses a row ends elsewhere.
  return swallows_errors(*plan) ? plan : move_parse_down(plan, /*shuffled=*/false, applied);
}

}  // namespace millrace
