#include "millrace/pipeline/plan/defer_parse.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

namespace millrace {
namespace {

/// What makes values of `bytes`, row by row, and so may stand after what moves rows.
struct Parsing {
  std::vector<PlanNodePtr> inputs;             // of its first operator
  MakeOperator make;                           // all of it as one operator, of rows or of batches
  std::shared_ptr<const Arguments> arguments;  // of that operator; null: several as one
  std::shared_ptr<const MapOperator> op;       // the same where it stands
};

// What is parsed last in `node`, if anything is.
std::optional<Parsing> parsing_in(const PlanNode& node) {
  const std::shared_ptr<const MapOperator> last = as_map(node);
  const Parses parses = last == nullptr ? Parses::kNothing : last->traits().parses;
  if (parses == Parses::kNothing) return std::nullopt;
  if (parses == Parses::kRecords) {
    return Parsing{.inputs = node.inputs, .make = node.make, .arguments = node.arguments, .op = last};
  }
  // As many as stand next to each other, in their order.
  std::vector<std::shared_ptr<const MapOperator>> run;
  Parsing parsing;
  for (const PlanNode* first = &node; true; first = parsing.inputs[0].get()) {
    const std::shared_ptr<const MapOperator> op = as_map(*first);
    if (op == nullptr || op->traits().parses != Parses::kValues) break;
    run.insert(run.begin(), op);
    auto fused = last->fused(run, first->inputs[0]->op->schema());
    if (fused == nullptr) {
      run.erase(run.begin());
      break;
    }
    parsing.op = std::move(fused);
    parsing.inputs = first->inputs;
  }
  if (run.empty()) return std::nullopt;
  if (run.size() == 1) parsing.arguments = node.arguments;
  parsing.make = [last, run = std::move(run)](std::span<const SchemaPtr> inputs) {
    return last->fused(run, inputs[0]);
  };
  return parsing;
}

// Whether rows that do not parse may pass through `plan` as good ones without a change in what comes before the first
// error. `shuffled`: a shuffle follows, which gives rows from after the error before it.
bool may_cross(const PlanNode& plan, const Parsing& parsing, bool shuffled) {
  const std::vector<FeatureSpec>& parsed = parsing.op->schema()->features();
  const OperatorTraits of_parse = parsing.op->traits();
  switch (plan.op->traits().defer_parse) {
    case DeferParse::kAnywhere: return true;
    case DeferParse::kBeforeErrors: return !shuffled;
    case DeferParse::kInside: return !shuffled && !of_parse.parses_batches && of_parse.parses == Parses::kRecords;
    case DeferParse::kInBatches:
      // Rows whose shapes vary must be alike in a batch, and are not when they are parsed after it.
      return !shuffled && !of_parse.parses_batches &&
             std::all_of(parsed.begin(), parsed.end(), [](const FeatureSpec& f) { return f.has_fixed_shape(); });
    case DeferParse::kNever: break;
  }
  return false;
}

bool swallows_errors(const PlanNode& plan) {
  return plan.op->traits().swallows_errors ||
         std::any_of(plan.inputs.begin(), plan.inputs.end(),
                     [](const PlanNodePtr& input) { return swallows_errors(*input); });
}

PlanNodePtr move_parse_down(const PlanNodePtr& plan, bool shuffled, std::vector<AppliedRewrite>& applied) {
  const bool shuffled_here = shuffled || plan->op->traits().reorders_rows;
  std::vector<PlanNodePtr> inputs;
  inputs.reserve(plan->inputs.size());
  for (const PlanNodePtr& input : plan->inputs) inputs.push_back(move_parse_down(input, shuffled_here, applied));
  const std::optional<Parsing> parsing = inputs.size() == 1 ? parsing_in(*inputs[0]) : std::nullopt;
  if (parsing && may_cross(*plan, *parsing, shuffled)) {
    PlanNodePtr unparsed = make_on_deferred_rows(*plan, parsing->inputs, {.schema = nullptr, .parse = parsing->op});
    if (plan->op->traits().defer_parse == DeferParse::kInside) {
      applied.push_back({"defer_parse", fmt::format("{} inside {}: rows stay compact bytes until they are padded",
                                                    parsing->op->name(), plan->op->name())});
      return unparsed;
    }
    applied.push_back(
        {"defer_parse", fmt::format("{} after {}: rows stay compact bytes", parsing->op->name(), plan->op->name())});
    return make_plan_node({std::move(unparsed)}, parsing->make, parsing->arguments);
  }
  if (inputs == plan->inputs) return plan;
  return make_plan_node(std::move(inputs), plan->make, plan->arguments);
}

}  // namespace

PlanNodePtr defer_parse(const PlanNodePtr& plan, std::vector<AppliedRewrite>& applied) {
  // Where errors are swallowed and the stream goes on, a batch that loses a row ends elsewhere.
  return swallows_errors(*plan) ? plan : move_parse_down(plan, /*shuffled=*/false, applied);
}

}  // namespace millrace
