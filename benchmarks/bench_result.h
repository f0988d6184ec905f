#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "benchmarks/bench_options.h"
#include "benchmarks/machine_description.h"
#include "millrace/formats/storage/remote/http_engine.h"
#include "millrace/pipeline/skip_ledger.h"
#include "millrace/pipeline/state_writer.h"
#include "millrace/pipeline/statistics.h"

namespace millrace {

/// What a run had come to at one moment of the measurement.
struct RunSample {
  double seconds = 0;  ///< since the measurement began
  int64_t records = 0;
  int64_t bytes = 0;
  double cpu_seconds = 0;
  double rss_mb = 0;
  double consumer_waiting_seconds = 0;  ///< since `start()`
  std::vector<StageReport> stages;      ///< since `start()`
};

/// What a run measured. Rates are those after the warm-up.
struct BenchResult {
  /// How long `next()` took.
  struct Latency {
    double p50_us = 0;
    double p90_us = 0;
    double p99_us = 0;
    double max_us = 0;
  };
  /// The numbers of one of several runs.
  struct Round {
    double us_wall_per_record = 0;
    double us_cpu_per_record = 0;
    double first_batch_ms = 0;
    double p99_us = 0;
  };

  BenchOptions options;
  MachineDescription machine;
  int64_t num_shards = 0;
  int64_t shard_bytes = 0;  ///< of the files, as they are stored

  int64_t batches = 0;  ///< measured
  int64_t records = 0;  ///< measured; after a batch, its rows
  int64_t bytes = 0;    ///< of the batches' values
  double wall_seconds = 0;
  double cpu_seconds = 0;     ///< user and system, all threads
  double first_batch_ms = 0;  ///< from start() to the first next()
  double peak_rss_mb = 0;     ///< of the process
  int threads = 0;
  int distinct_workers = 0;
  std::string bottleneck;
  Latency latency;
  std::vector<RunSample> samples;          ///< about a hundred, from the beginning to the end
  std::optional<std::string> stream_hash;  ///< only with --batches
  int64_t hashed_from = 0;                 ///< the first batch that it covers
  int64_t resumed_after = 0;               ///< batches delivered before this run
  StateWriter::Written states;
  int64_t saves = 0;        ///< states taken; one that came before the one ahead of it was begun replaced that
  double save_seconds = 0;  ///< to take them
  Statistics statistics;
  std::optional<SkipReport> skipped;              ///< what was left out of damaged shards; only with `--damage skip`
  std::optional<uint64_t> trace_dropped;          ///< events that had no room in the trace; only with `--trace`
  std::optional<DiskCacheStatistics> disk_cache;  ///< of all of the run
  std::optional<HttpStatistics> requests;         ///< of shards at URLs, while it was measured
  std::vector<Round> rounds;                      ///< where there was more than one; the rest is that of the median one

  double us_wall_per_record() const;
  double us_cpu_per_record() const;
};

/// One JSON object; docs/measuring.md says what is in it.
[[nodiscard]] nlohmann::ordered_json to_json(const BenchResult& result);
/// A table for people.
[[nodiscard]] std::string to_table(const BenchResult& result);

}  // namespace millrace
