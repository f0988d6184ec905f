#pragma once

#include "benchmarks/bench_options.h"
#include "millrace/pipeline/dataset.h"

namespace millrace {

/// `dataset_bench --check`: prints the report, as a table or as one JSON object. Returns the exit code: 1 where
/// something that was asked for is not so. Throws what `Dataset::check` throws.
[[nodiscard]] int run_check(const Dataset& dataset, const BenchOptions& options);

}  // namespace millrace
