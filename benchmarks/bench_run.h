#pragma once

#include "benchmarks/bench_options.h"
#include "benchmarks/bench_result.h"
#include "millrace/pipeline/dataset.h"

namespace millrace {

/// How the options start a pipeline. Throws `kIo` and `kState` for a state that cannot be read.
[[nodiscard]] StartOptions start_options(const BenchOptions& options);

/// Runs the dataset once as the options say. On a terminal it shows how it goes, see LiveDisplay.
[[nodiscard]] BenchResult run_bench(const Dataset& dataset, const BenchOptions& options);

/// Runs it `options.rounds` times, each time from the beginning: the result of the round of median wall time, with
/// `BenchResult::rounds` where there is more than one.
[[nodiscard]] BenchResult run_rounds(const Dataset& dataset, const BenchOptions& options);

}  // namespace millrace
