#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/formats/records/damage_policy.h"
#include "millrace/formats/storage/remote/disk_cache_options.h"
#include "millrace/ops/sources/tfrecord.h"
#include "millrace/pipeline/stall.h"

namespace millrace {

/// An option that a sweep tries with several values.
struct SweptOption {
  std::string key;
  std::vector<int64_t> values;
};

/// The command line of `dataset_bench`.
struct BenchOptions {
  std::string workload;
  std::string pipeline;  ///< file with a pipeline definition, in the place of workload and shards; empty: none
  std::string shards;
  // Of a workload, its own where they are not given.
  int64_t batch = 1;
  int64_t shuffle = 1;
  bool shuffle_was_given = false;  ///< else a workload may take fewer rows
  int64_t cycle_length = 1;
  int64_t block_length = 1;
  int64_t chunk_bytes = TfrecordOptions().chunk_bytes;
  int64_t read_ahead = TfrecordOptions().read_ahead;
  int64_t prefetch = 2;
  bool cache = false;
  int threads = 0;
  double seconds = 5;
  double warmup_seconds = 1;
  /// Stop after this many batches, counted from the start of the stream, and compute the stream hash.
  std::optional<int64_t> batches;
  uint64_t seed = 42;
  bool ordered = true;
  int64_t consumer_us = 0;
  double watchdog = kProgramWatchdogSeconds;  ///< seconds; 0: off
  DiskCacheOptions disk_cache;
  int64_t print = 0;
  bool explain = false;
  bool explain_dot = false;
  bool check = false;
  int64_t check_elements = 1000;  ///< 0: all
  std::optional<int64_t> max_distinct_shapes;
  std::map<std::string, double> max_padding;  ///< by feature
  bool fixed_shapes = false;
  bool known_cardinality = false;
  std::string save_pipeline;  ///< file for the definition of the pipeline; empty: none
  std::string save;           ///< folder for the elements; empty: none
  bool overwrite = false;     ///< of elements that are in it
  bool floor = false;
  int64_t rounds = 1;
  std::vector<SweptOption> sweep;    ///< empty: one run
  std::vector<std::string> compare;  ///< two files with results; empty: a run
  double max_slowdown = 1.2;         ///< of `compare`
  bool display = true;
  bool statistics = true;
  bool json = false;
  std::string html;   ///< file for a page about the run; empty: none
  std::string trace;  ///< file for a trace of the run; empty: none
  DamagePolicy damage;
  std::string skipped_log;    ///< file for a line for each region that was left out; empty: none
  int64_t memory_mb = 0;      ///< MiB for all buffers; 0: half of the machine's memory
  std::string state;          ///< file that states are written to; empty: none
  int64_t state_every = 100;  ///< batches between two of them
  std::string resume;         ///< file with the state to go on from; empty: none
  std::string hash_log;       ///< file for a digest of each batch; empty: none
  std::vector<std::string> disabled_rewrites;
};

/// Parses the command line; nothing when `--help` was asked for and printed. Throws `kInvalidArgument` with one line
/// that says what is wrong.
[[nodiscard]] std::optional<BenchOptions> parse_bench_options(int argc, char** argv);

}  // namespace millrace
