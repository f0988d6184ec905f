#include "millrace/pipeline/plan/plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/utf8.h"
#include "millrace/pipeline/plan/defer_copy.h"
#include "millrace/pipeline/plan/defer_parse.h"

namespace millrace {
namespace {

void print_into(const PlanNode& node, int depth, std::string& text) {
  if (node.inputs.size() == 1) {
    print_into(*node.inputs[0], depth, text);
  } else {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      text += fmt::format("{:{}}input {}:\n", "", 2 * depth + 2, i);
      print_into(*node.inputs[i], depth + 2, text);
    }
  }
  std::string line = fmt::format("{}({})", node.op->name(), node.text(Effect::kStream, /*all=*/false));
  for (const std::string& more :
       {node.text(Effect::kDamage, /*all=*/false), node.text(Effect::kSpeed, /*all=*/false), node.op->remark()}) {
    if (!more.empty()) line += fmt::format(" [{}]", more);
  }
  line += fmt::format(" -> {}", node.op->schema()->to_string());
  text += fmt::format("{:{}}{}\n", "", 2 * depth, printable(line));
}

std::string dot_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// The text with a line break after each comma beyond a width.
std::string wrapped(std::string_view text) {
  constexpr size_t kWidth = 40;
  std::string out;
  size_t width = 0;
  for (const char c : text) {
    if (c == ' ' && width > kWidth && out.back() == ',') {
      out += '\n';
      width = 0;
      continue;
    }
    out += c;
    ++width;
  }
  return out;
}

// The number of the node, which is there from then on.
size_t print_dot_into(const PlanNode& node, std::map<const PlanNode*, size_t>& numbers, std::string& text) {
  if (const auto found = numbers.find(&node); found != numbers.end()) return found->second;
  std::vector<size_t> inputs;
  for (const PlanNodePtr& input : node.inputs) inputs.push_back(print_dot_into(*input, numbers, text));
  const size_t number = numbers.size();
  numbers.emplace(&node, number);
  const std::string arguments = printable(node.text(Effect::kStream, /*all=*/false));
  text += fmt::format(
      "  n{} [label={}];\n", number,
      dot_string(wrapped(fmt::format("{}{}{}", node.op->name(), arguments.empty() ? "" : "\n", arguments))));
  for (size_t i = 0; i < inputs.size(); ++i) {
    text += fmt::format("  n{} -> n{} [label={}];\n", inputs[i], number,
                        dot_string(wrapped(printable(node.inputs[i]->op->schema()->to_string()))));
  }
  return number;
}

}  // namespace

std::string PlanNode::text(Effect wanted, bool all) const {
  if (arguments != nullptr) return arguments->text(wanted, all);
  return wanted == Effect::kStream ? op->arguments() : "";
}

PlanNodePtr make_plan_node(std::vector<PlanNodePtr> inputs, MakeOperator make,
                           std::shared_ptr<const Arguments> arguments) {
  std::vector<SchemaPtr> schemas;
  schemas.reserve(inputs.size());
  for (const PlanNodePtr& input : inputs) schemas.push_back(input->op->schema());
  auto op = make(schemas);
  if (op == nullptr) throw std::logic_error("an operator is not made on the input that it was moved to");
  return std::make_shared<const PlanNode>(
      PlanNode{std::move(op), std::move(inputs), std::move(make), std::move(arguments)});
}

PlanNodePtr make_on_deferred_rows(const PlanNode& node, std::vector<PlanNodePtr> inputs, const DeferredRows& rows) {
  return make_plan_node(
      std::move(inputs),
      [op = node.op, make = node.make, rows](std::span<const SchemaPtr> schemas) {
        auto moved = op->of_deferred_rows({.schema = schemas[0], .parse = rows.parse, .row_bytes = rows.row_bytes});
        if (moved == nullptr && op->traits().defer_parse == DeferParse::kInside) {
          throw std::logic_error(fmt::format("{} promises to parse inside, and gives nothing that does", op->name()));
        }
        return moved != nullptr ? moved : make(schemas);
      },
      node.arguments);
}

std::shared_ptr<const MapOperator> as_map(const PlanNode& node) {
  return std::dynamic_pointer_cast<const MapOperator>(node.op);
}
std::shared_ptr<const StageOperator> as_stage(const PlanNode& node) {
  return std::dynamic_pointer_cast<const StageOperator>(node.op);
}

std::string_view checkpoint_blocker(const PlanNode& node) {
  return as_map(node) != nullptr ? std::string_view() : node.op->traits().checkpoint_blocker;
}

namespace {

using CardinalityOf = Cardinality (Operator::*)(std::span<const Cardinality> inputs) const;

Cardinality from_sources_up(const PlanNode& node, CardinalityOf cardinality_of) {
  std::vector<Cardinality> inputs;
  inputs.reserve(node.inputs.size());
  for (const PlanNodePtr& input : node.inputs) inputs.push_back(from_sources_up(*input, cardinality_of));
  return (*node.op.*cardinality_of)(inputs);
}

}  // namespace

Cardinality plan_cardinality(const PlanNode& node) { return from_sources_up(node, &Operator::cardinality); }
Cardinality certain_cardinality(const PlanNode& node) { return from_sources_up(node, &Operator::certain_cardinality); }

namespace {

void add_shard_paths(const PlanNode& plan, std::vector<std::string>& paths) {
  for (const PlanNodePtr& input : plan.inputs) add_shard_paths(*input, paths);
  if (const Shards* shards = plan.op->shards()) {
    for (const Shard& shard : shards->list()) paths.push_back(shard.path);
  }
}

}  // namespace

std::vector<std::string> shard_paths(const PlanNode& plan) {
  std::vector<std::string> paths;
  add_shard_paths(plan, paths);
  return paths;
}

uint64_t count_upstream(const PlanNode& node, std::string_view name) {
  uint64_t most = 0;
  for (const PlanNodePtr& input : node.inputs) most = std::max(most, count_upstream(*input, name));
  return most + (node.op->name() == name ? 1 : 0);
}

std::string print_plan(const PlanNode& node) {
  std::string text;
  print_into(node, 0, text);
  return text;
}

std::string print_dot(const PlanNode& node) {
  std::map<const PlanNode*, size_t> numbers;
  std::string text = "digraph pipeline {\n  node [shape=box];\n";
  print_dot_into(node, numbers, text);
  return text + "}\n";
}

std::span<const Rewrite> all_rewrites() {
  static constexpr std::array kRewrites = {
      Rewrite{"defer_parse", "records are shuffled and batched as compact bytes and parsed into the batch",
              defer_parse},
      Rewrite{"defer_copy", "cached elements are shuffled and batched by their places and copied into the batch",
              defer_copy},
  };
  return kRewrites;
}

PlanNodePtr rewrite_plan(PlanNodePtr plan, std::span<const std::string> disabled,
                         std::vector<AppliedRewrite>& applied) {
  for (const std::string& name : disabled) {
    std::vector<std::string_view> known;
    for (const Rewrite& rewrite : all_rewrites()) known.push_back(rewrite.name);
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("no rewrite '{}'; there are: {}", name, fmt::join(known, ", ")));
  }
  for (const Rewrite& rewrite : all_rewrites()) {
    if (std::find(disabled.begin(), disabled.end(), rewrite.name) == disabled.end())
      plan = rewrite.apply(plan, applied);
  }
  return plan;
}

}  // namespace millrace
