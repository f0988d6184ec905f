#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "benchmarks/bench_options.h"
#include "pipeline/dataset.h"
#include "pipeline/state_writer.h"

namespace millrace {

/// What a run measured. Rates are those after the warm-up.
struct BenchResult {
  std::string workload;
  int64_t batches = 0;  ///< measured
  int64_t records = 0;  ///< measured; behind a batch, its rows
  int64_t bytes = 0;    ///< of the batches' values
  double wall_seconds = 0;
  double cpu_seconds = 0;     ///< user and system, all threads
  double first_batch_ms = 0;  ///< from start() to the first next()
  double peak_rss_mb = 0;     ///< of the process
  int threads = 0;
  int distinct_workers = 0;
  std::string bottleneck;
  std::optional<std::string> stream_hash;  ///< only with --batches
  int64_t hashed_from = 0;                 ///< the first batch that it covers
  int64_t resumed_after = 0;               ///< batches delivered before this run
  StateWriter::Written states;
  int64_t saves = 0;        ///< states taken; one that came before the one ahead of it was begun replaced that
  double save_seconds = 0;  ///< to take them
  Statistics statistics;
  std::optional<SkipReport> skipped;  ///< what was left out of damaged shards; only with `--damage skip`
};

/// How the options start a pipeline. Throws `kIo` and `kState` for a state that cannot be read.
[[nodiscard]] StartOptions start_options(const BenchOptions& options);

/// Runs the dataset as the options say. On a terminal a line on standard error tells how far it is.
[[nodiscard]] BenchResult run_bench(const Dataset& dataset, const BenchOptions& options);

/// One JSON object on one line.
[[nodiscard]] std::string to_json(const BenchResult& result);
/// A table for people.
[[nodiscard]] std::string to_table(const BenchResult& result);

}  // namespace millrace
