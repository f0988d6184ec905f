#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/contract/twin_dataset.h"

namespace millrace::test {

// Numbers that decide what a part of a graph is: drawn the first time and recorded, so that the same part can be made
// again, and a simpler one from smaller numbers.
class Picks {
 public:
  // Draws. The numbers are a pure function of (seed, part).
  Picks(uint64_t seed, uint64_t part) : seed_(seed), part_(part) {}
  // Gives these; what is missing is 0.
  explicit Picks(std::vector<int64_t> recorded) : replays_(true), numbers_(std::move(recorded)) {}

  // A whole number from `low` to `high`; the smaller its record, the nearer to `low`.
  int64_t between(int64_t low, int64_t high);
  bool chance(int64_t one_in) { return between(0, one_in - 1) == one_in - 1; }
  template <typename T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<size_t>(between(0, static_cast<int64_t>(list.size()) - 1))];
  }
  const std::vector<int64_t>& numbers() const { return numbers_; }
  // How many datasets deep the drawing is in nested inputs.
  int depth = 0;

 private:
  uint64_t seed_ = 0;
  uint64_t part_ = 0;
  bool replays_ = false;
  size_t next_ = 0;
  std::vector<int64_t> numbers_;
};

// One way to begin a dataset.
struct SourceLine {
  std::string_view name;  // of the operator
  int weight;             // how often it is drawn, against the others
  TwinDataset (*make)(Picks& picks, const Weave& weave);
  bool takes_inputs = false;  // that are drawn too
};

// One way to go on: an operator with parameters that `picks` decide.
struct OperatorLine {
  std::string_view name;
  int weight;
  bool (*fits)(const TwinDataset& input);
  TwinDataset (*add)(const TwinDataset& input, Picks& picks);
};

// Every operator there is: operator_table.cc.
[[nodiscard]] std::span<const SourceLine> source_lines();
[[nodiscard]] std::span<const OperatorLine> operator_lines();

// A source and 1 to 6 operators after it, by their lines and the numbers that each picked.
struct Graph {
  struct Part {
    size_t line = 0;
    std::vector<int64_t> picks;
  };
  uint64_t seed = 0;        // it was drawn from
  bool simplified = false;  // afterwards
  Part source;
  std::vector<Part> steps;
};

// The graph of a seed. Equal seeds give equal graphs.
[[nodiscard]] Graph draw_graph(uint64_t seed);
// Nothing when a step does not fit after the one before.
[[nodiscard]] std::optional<TwinDataset> build(const Graph& graph, const Weave& weave = {});
// Graphs with a part less, or with smaller numbers, the simplest first. All can be built.
[[nodiscard]] std::vector<Graph> simpler_graphs(const Graph& graph);

// A source and up to two operators after it, for an input of what has several.
[[nodiscard]] TwinDataset draw_nested(Picks& picks, const Weave& weave);
// Up to two operators after `twin`; finite.
[[nodiscard]] TwinDataset draw_after(TwinDataset twin, Picks& picks);

// The C++ that builds it, and its seed.
std::ostream& operator<<(std::ostream& out, const Graph& graph);

}  // namespace millrace::test
