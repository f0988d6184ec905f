#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/bench_options.h"
#include "benchmarks/floor/floor.h"
#include "millrace/pipeline/dataset.h"

namespace millrace {

/// The engine and its floor on the same data, in turn.
struct FloorResult {
  struct Round {
    double engine_wall_us = 0;  ///< all four: for a record
    double engine_cpu_us = 0;
    double floor_wall_us = 0;
    double floor_cpu_us = 0;
    double line_hand_off_ns = 0;  ///< the larger of before and after it, see `line_hand_off_ns`
  };
  std::string workload;
  int threads = 0;
  size_t compared_batches = 0;  ///< whose content was the same
  std::vector<Round> rounds;

  /// Medians over the rounds of the engine's time over the floor's of the same round.
  double wall_ratio() const;
  double cpu_ratio() const;
};

/// Makes the floor's batches once. Throws `kCardinality` when there are not as many as the engine's, or with the first
/// that is another: a floor that does other work is none.
void require_same_content(Floor& floor);

/// Measures both `options.rounds` times for `options.seconds` each, one after the other; before that, untimed, the
/// content of the floor's batches is compared with the engine's (`require_same_content`).
[[nodiscard]] FloorResult run_floor(const Dataset& dataset, const BenchOptions& options);

/// One JSON object on one line.
[[nodiscard]] std::string to_json(const FloorResult& result);
/// A table for people.
[[nodiscard]] std::string to_table(const FloorResult& result);

}  // namespace millrace
