#pragma once

#include <span>
#include <string_view>

#include "benchmarks/bench_options.h"
#include "pipeline/dataset.h"

namespace millrace {

/// A dataset that `dataset_bench` knows by name.
struct Workload {
  std::string_view name;
  std::string_view what;
  Dataset (*make)(const BenchOptions& options);
};

std::span<const Workload> all_workloads();

/// The dataset of `options.pipeline`, else of `options.workload`. Throws `kInvalidArgument` when there is none of that
/// name, and what PipelineDef throws.
[[nodiscard]] Dataset make_workload(const BenchOptions& options);

}  // namespace millrace
