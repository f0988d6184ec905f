#include "tests/contract/graph.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/formats/random/counter_rng.h"

namespace millrace::test {
namespace {

constexpr size_t kMostSteps = 6;

template <typename Line>
size_t pick_line(std::span<const Line> lines, const std::vector<size_t>& candidates, Picks& picks) {
  int64_t total = 0;
  for (const size_t line : candidates) total += lines[line].weight;
  int64_t place = picks.between(0, total - 1);
  for (const size_t line : candidates) {
    place -= lines[line].weight;
    if (place < 0) return line;
  }
  return candidates.back();
}

std::vector<size_t> fitting(const TwinDataset& twin) {
  std::vector<size_t> lines;
  for (size_t i = 0; i < operator_lines().size(); ++i) {
    if (operator_lines()[i].fits(twin)) lines.push_back(i);
  }
  return lines;
}

std::vector<size_t> all_sources() {
  std::vector<size_t> lines(source_lines().size());
  for (size_t i = 0; i < lines.size(); ++i) lines[i] = i;
  return lines;
}

}  // namespace

int64_t Picks::between(int64_t low, int64_t high) {
  const auto range = static_cast<uint64_t>(high - low) + 1;
  if (!replays_) {
    const uint64_t bits = CounterRng(seed_, operator_id("picks")).bits(part_, numbers_.size());
    numbers_.push_back(static_cast<int64_t>(uniform_below(bits, range)));
    return low + numbers_.back();
  }
  const int64_t number = next_ < numbers_.size() ? numbers_[next_] : 0;
  ++next_;
  return low + std::min(number, high - low);
}

Graph draw_graph(uint64_t seed) {
  Graph graph;
  graph.seed = seed;
  Picks shape(seed, 0);
  const auto num_steps = static_cast<size_t>(shape.between(1, kMostSteps));
  graph.source.line = pick_line(source_lines(), all_sources(), shape);
  Picks source(seed, 1);
  TwinDataset twin = source_lines()[graph.source.line].make(source, {});
  graph.source.picks = source.numbers();
  while (graph.steps.size() < num_steps) {
    const size_t line = pick_line(operator_lines(), fitting(twin), shape);
    Picks picks(seed, 2 + graph.steps.size());
    twin = operator_lines()[line].add(twin, picks);
    graph.steps.push_back({line, picks.numbers()});
  }
  return graph;
}

std::optional<TwinDataset> build(const Graph& graph, const Weave& weave) {
  Picks picks(graph.source.picks);
  TwinDataset twin = source_lines()[graph.source.line].make(picks, weave);
  for (const Graph::Part& step : graph.steps) {
    const OperatorLine& line = operator_lines()[step.line];
    if (!line.fits(twin)) return std::nullopt;
    Picks step_picks(step.picks);
    twin = line.add(twin, step_picks);
  }
  return twin;
}

std::vector<Graph> simpler_graphs(const Graph& graph) {
  std::vector<Graph> simpler;
  const auto add = [&](Graph candidate) {
    candidate.simplified = true;
    if (build(candidate)) simpler.push_back(std::move(candidate));
  };
  for (size_t i = 0; i < graph.steps.size(); ++i) {
    Graph candidate = graph;
    candidate.steps.erase(candidate.steps.begin() + static_cast<std::ptrdiff_t>(i));
    add(std::move(candidate));
  }
  for (size_t line = 0; line < graph.source.line; ++line) {
    Graph candidate = graph;
    candidate.source = {.line = line, .picks = {}};
    add(std::move(candidate));
  }
  const auto shrink_numbers = [&](auto&& part_of) {
    const std::vector<int64_t> numbers = part_of(graph).picks;
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] == 0) continue;
      for (const int64_t smaller : {int64_t{0}, numbers[i] / 2, numbers[i] - 1}) {
        if (smaller == numbers[i]) continue;
        Graph candidate = graph;
        part_of(candidate).picks[i] = smaller;
        add(std::move(candidate));
      }
    }
  };
  shrink_numbers([](auto& g) -> auto& { return g.source; });
  for (size_t s = 0; s < graph.steps.size(); ++s) {
    shrink_numbers([s](auto& g) -> auto& { return g.steps[s]; });
  }
  return simpler;
}

TwinDataset draw_nested(Picks& picks, const Weave& weave) {
  constexpr int kDeepest = 2;
  std::vector<size_t> sources = all_sources();
  if (++picks.depth == kDeepest) {
    std::erase_if(sources, [](size_t line) { return source_lines()[line].takes_inputs; });
  }
  TwinDataset twin = source_lines()[pick_line(source_lines(), sources, picks)].make(picks, weave);
  --picks.depth;
  return draw_after(std::move(twin), picks);
}

TwinDataset draw_after(TwinDataset twin, Picks& picks) {
  for (int64_t steps = picks.between(0, 2); steps > 0; --steps) {
    twin = operator_lines()[pick_line(operator_lines(), fitting(twin), picks)].add(twin, picks);
    if (twin.infinite()) twin = twin.take(picks.between(1, 30));
  }
  return twin;
}

std::ostream& operator<<(std::ostream& out, const Graph& graph) {
  const std::optional<TwinDataset> twin = build(graph);
  return out << "graph of seed " << static_cast<int64_t>(graph.seed) << (graph.simplified ? ", simplified" : "")
             << ":\n    const Dataset dataset = " << (twin ? twin->code() : "a graph that cannot be built") << ";\n";
}

}  // namespace millrace::test
