#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "benchmarks/bench_options.h"
#include "millrace/pipeline/dataset.h"

namespace millrace {

/// What `dataset_bench` measures, and what is worth telling about it; mostly nothing.
struct MadeWorkload {
  Dataset dataset;
  std::string remark = {};
  std::optional<int64_t> shuffle = {};  ///< rows in the shuffle buffer, where that is not what the options say
};

/// A dataset that `dataset_bench` knows by name.
struct Workload {
  /// What its options are where they are not given. Options without a value here have no effect on it.
  struct Defaults {
    std::optional<int64_t> batch = std::nullopt;
    std::optional<int64_t> shuffle = std::nullopt;
    std::optional<int64_t> cycle_length = std::nullopt;
    bool takes_shards = true;  ///< and how they are read
    bool takes_seed = false;
    bool takes_cache = false;
  };
  std::string_view name;
  std::string_view what;
  Defaults defaults;
  MadeWorkload (*make)(const BenchOptions& options);
};

std::span<const Workload> all_workloads();

/// Throws `kInvalidArgument` with the names there are.
[[nodiscard]] const Workload& find_workload(std::string_view name);

/// The dataset of `options.pipeline`, else of `options.workload`. Throws `kInvalidArgument` when there is none of that
/// name, and what PipelineDef throws.
[[nodiscard]] MadeWorkload make_workload(const BenchOptions& options);

}  // namespace millrace
