// Random graphs of operators. Environment:
//   MILLRACE_SOAK=1        10,000 graphs instead of 500, from a seed of its own
//   MILLRACE_SEED=N        the seed of the run
//   MILLRACE_GRAPHS=N      so many graphs
//   MILLRACE_GRAPH_SEED=N  only the graph of this seed, as a failure prints it

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "tests/contract/checks.h"
#include "tests/contract/graph.h"
#include "tests/contract/pending_operator.h"
#include "tests/support/sanitized.h"
#include "tests/support/soak.h"

namespace millrace::test::graphs_test {
namespace {

constexpr int64_t kGraphs = kThreadSanitized ? 40 : kSanitized ? 120 : 500;
constexpr int64_t kSoakGraphs = 10000;

std::string broken_promise_of(const Graph& graph) {
  return broken_promise([&graph](const Weave& weave) { return *build(graph, weave); },
                        {.seed = graph.seed, .most_places = 1});
}

// What has been drawn: a run that never draws an operator says nothing about it.
class Census {
 public:
  void add(const TwinDataset& twin) {
    ++graphs_;
    with_shards_ += twin.reads_shards() ? 1 : 0;
    with_compressed_shards_ += twin.reads_compressed_shards() ? 1 : 0;
    keeping_rows_ +=
        twin.has("shuffle") || twin.has("bucket_by_sequence_length") || twin.has("group_by_window") || twin.has("pack")
            ? 1
            : 0;
    for (const std::string& name : std::set(twin.operators().begin(), twin.operators().end())) ++operators_[name];
    for (const auto& pair : std::set(twin.pairs().begin(), twin.pairs().end())) ++pairs_[pair];
  }

  std::string to_string() const {
    std::string text = fmt::format(
        "{} graphs: {:.1f}% read shards, {:.1f}% compressed ones, {:.1f}% keep rows\ngraphs with each operator:\n",
        graphs_, percent(with_shards_), percent(with_compressed_shards_), percent(keeping_rows_));
    for (const auto& [name, count] : operators_) text += fmt::format("  {:<14} {:5.1f}%\n", name, percent(count));
    text += "graphs with each pair of neighbours:\n";
    std::string before;
    for (const auto& [pair, count] : pairs_) {
      if (pair.first != before) text += fmt::format("{}  {} |", before.empty() ? "" : "\n", before = pair.first);
      text += fmt::format(" {} {}", pair.second, count);
    }
    return text + '\n';
  }

  void expect_enough() const {
    EXPECT_GE(2 * with_shards_, graphs_);
    EXPECT_GE(3 * with_compressed_shards_, with_shards_);
    EXPECT_GE(3 * keeping_rows_, graphs_);
    std::set<std::string_view> names;
    for (const SourceLine& line : source_lines()) names.insert(line.name);
    for (const OperatorLine& line : operator_lines()) names.insert(line.name);
    for (const std::string_view name : names) {
      const auto found = operators_.find(std::string(name));
      EXPECT_GE(found == operators_.end() ? 0 : 100 * found->second, graphs_) << name << " is in less than 1%";
    }
  }

 private:
  double percent(int64_t count) const { return 100 * static_cast<double>(count) / static_cast<double>(graphs_); }

  int64_t graphs_ = 0;
  int64_t with_shards_ = 0;
  int64_t with_compressed_shards_ = 0;
  int64_t keeping_rows_ = 0;
  std::map<std::string, int64_t> operators_;
  std::map<std::pair<std::string, std::string>, int64_t> pairs_;
};

rc::Gen<Graph> any_graph() {
  const auto seeds = rc::gen::noShrink(rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<uint64_t>()));
  return rc::gen::shrink(rc::gen::map(seeds, draw_graph),
                         [](const Graph& graph) { return rc::seq::fromContainer(simpler_graphs(graph)); });
}

TEST(Graphs, KeepTheContract) {
  if (const std::optional<int64_t> only = number_from_environment("MILLRACE_GRAPH_SEED")) {
    const Graph graph = draw_graph(static_cast<uint64_t>(*only));
    std::ostringstream text;
    text << graph;
    EXPECT_EQ(broken_promise_of(graph), "") << text.str();
    return;
  }
  const int64_t count = number_from_environment("MILLRACE_GRAPHS").value_or(soaking() ? kSoakGraphs : kGraphs);
  const uint64_t seed = seed_of_this_run();
  // How RapidCheck is told: it reads this when it is first used.
  ASSERT_EQ(::setenv("RC_PARAMS", fmt::format("seed={} max_success={}", seed, count).c_str(), 1), 0);
  Census census;
  const int64_t pending_before = num_injected_pending();
  const bool passed = rc::check("every graph keeps the contract", [&] {
    const Graph graph = *any_graph();
    if (!graph.simplified) census.add(*build(graph));
    const std::string broken = broken_promise_of(graph);
    if (!broken.empty()) {
      RC_FAIL(
          fmt::format("{}\nThe graph that was drawn, once more: MILLRACE_GRAPH_SEED={} contract_tests "
                      "--gtest_filter=Graphs.*",
                      broken, static_cast<int64_t>(graph.seed)));
    }
  });
  fmt::print("seed {}\n{}", seed, census.to_string());
  EXPECT_TRUE(passed) << "MILLRACE_SEED=" << seed << " draws the same graphs";
  if (!passed) return;
  EXPECT_GT(num_injected_pending(), pending_before);
  if (count >= 500) census.expect_enough();
}

}  // namespace
}  // namespace millrace::test::graphs_test
