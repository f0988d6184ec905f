// What operators promise of themselves (ops/operator_traits.h), against what they do. That rows are handed on as views,
// that states go on, and what rewrites rely on, the contract tries on every stream: a promise that is not kept gives
// another one there.

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/keep/cache.h"
#include "millrace/pipeline/plan/plan.h"
#include "tests/contract/graph.h"
#include "tests/contract/outcome.h"

namespace millrace::test::traits_test {
namespace {

using Visit = std::function<void(const PlanNode& node)>;

void for_each_node(const PlanNode& node, const Visit& visit) {
  for (const PlanNodePtr& input : node.inputs) for_each_node(*input, visit);
  visit(node);
}

// Files of elements are written and read by threads that may wait.
bool keeps_a_folder(const PlanNode& node) {
  const auto* cache = node.arguments->as<CacheArguments>();
  return node.op->name() == "snapshot" || node.op->name() == "load" ||
         (cache != nullptr && !cache->options.directory.empty());
}

void expect_nonblocking(const TwinDataset& twin, std::set<std::string>& seen) {
  for_each_node(*twin.dataset().plan(), [&](const PlanNode& node) {
    if (node.arguments == nullptr) return;
    const bool may_wait = node.arguments->calls_function() || keeps_a_folder(node);
    EXPECT_EQ(node.op->traits().is_nonblocking, !may_wait) << node.op->name() << " in\n" << twin.code();
    seen.insert(std::string(node.arguments->method()));
  });
}

TEST(Traits, EveryOperatorThatCallsNoFunctionAndKeepsNoFolderNeverWaits) {
  std::set<std::string> seen;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    for (size_t i = 0; i < source_lines().size(); ++i) {
      Picks picks(seed, i);
      expect_nonblocking(source_lines()[i].make(picks, {}), seen);
    }
  }
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    if (const auto twin = build(draw_graph(seed))) expect_nonblocking(*twin, seen);
  }
  EXPECT_TRUE(seen.contains("interleave"));
  EXPECT_TRUE(seen.contains("flat_map_inputs"));
  EXPECT_TRUE(seen.contains("map"));
  EXPECT_GT(seen.size(), 50U);
}

// Values without the epoch and the rows.
std::set<std::string> values_in(const Dataset& dataset, size_t limit) {
  std::set<std::string> values;
  for (const std::string& element : run(with_errors_shown(dataset), {}, limit).elements) {
    values.insert(element.substr(0, element.find(" (epoch")));
  }
  return values;
}

TEST(Traits, APassthroughGivesElementsOfItsInput) {
  constexpr size_t kLimit = 60;
  std::set<std::string> seen;
  for (size_t i = 0; i < operator_lines().size(); ++i) {
    const OperatorLine& line = operator_lines()[i];
    const TwinDataset input = TwinDataset::rows(19);
    if (!line.fits(input)) continue;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      Picks picks(seed, i);
      const TwinDataset twin = line.add(input, picks);
      if (!twin.dataset().plan()->op->traits().is_row_passthrough) continue;
      const std::set<std::string> all = values_in(input.dataset(), kLimit);
      for (const std::string& value : values_in(twin.dataset(), kLimit)) {
        EXPECT_TRUE(all.contains(value)) << value << "\n" << twin.code();
      }
      seen.insert(std::string(line.name));
    }
  }
  EXPECT_THAT(seen, testing::IsSupersetOf({"repeat", "shard", "shuffle", "skip", "take"}));
}

}  // namespace
}  // namespace millrace::test::traits_test
