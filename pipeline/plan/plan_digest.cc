#include "millrace/pipeline/plan/plan_digest.h"

#include <algorithm>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/pipeline/plan/plan.h"

namespace millrace {
namespace {

constexpr size_t kMostArguments = 160;

void add(const PlanNode& node, std::vector<PlanDigest::Operator>& operators) {
  for (const PlanNodePtr& input : node.inputs) add(*input, operators);
  if (node.op->traits().prefetched) return;
  const std::string text =
      fmt::format("{}({}) of {} inputs -> {}, {:016x}", node.op->name(), node.text(Effect::kStream, /*all=*/true),
                  node.inputs.size(), node.op->schema()->to_string(), node.op->content_digest());
  operators.push_back({.name = std::string(node.op->name()),
                       .arguments = node.text(Effect::kStream, /*all=*/false).substr(0, kMostArguments),
                       .digest = XXH3_64bits(text.data(), text.size())});
}

}  // namespace

std::string PlanDigest::difference(const PlanDigest& saved) const {
  const auto print = [](const Operator& op) { return fmt::format("{}({})", op.name, op.arguments); };
  for (size_t i = 0; i < std::min(operators.size(), saved.operators.size()); ++i) {
    if (operators[i].digest == saved.operators[i].digest) continue;
    const std::string here = print(operators[i]);
    const std::string there = print(saved.operators[i]);
    if (here == there) return fmt::format("operator {}, {}, has other features or contents", i, here);
    return fmt::format("operator {} is {}, in the state it is {}", i, here, there);
  }
  if (operators.size() > saved.operators.size()) {
    return fmt::format("the state has no operator {}, {}", saved.operators.size(),
                       print(operators[saved.operators.size()]));
  }
  if (operators.size() < saved.operators.size()) {
    return fmt::format("the state has one more operator, {}", print(saved.operators[operators.size()]));
  }
  return "";
}

PlanDigest digest_of(const PlanNode& plan) {
  PlanDigest digest;
  add(plan, digest.operators);
  return digest;
}

}  // namespace millrace
