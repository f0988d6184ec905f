#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/bench_options.h"
#include "benchmarks/bench_result.h"

namespace millrace {

/// What a sweep found.
struct SweepResult {
  struct Run {
    std::vector<std::pair<std::string, int64_t>> values;  ///< by key, as the sweep names them
    BenchResult result;
    std::string stream_hash;  ///< of the first batches, in a run of their own
  };
  std::vector<Run> runs;  ///< every combination, the last key's values first
  size_t best = 0;        ///< the one that needs the least wall time for a record
};

/// Runs every combination of the values of `options.sweep` in fresh pipelines, `options.rounds` times. Throws
/// `kCardinality` when combinations give different streams though they differ only in options that must not change it.
[[nodiscard]] SweepResult run_sweep(const BenchOptions& options);

/// One JSON object on one line: `best`, and `runs` with `values`, `stream_hash` and `result`, as `--json` has it.
[[nodiscard]] std::string to_json(const SweepResult& result);
/// A table for people.
[[nodiscard]] std::string to_table(const SweepResult& result);

}  // namespace millrace
