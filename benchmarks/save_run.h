#pragma once

#include "benchmarks/bench_options.h"
#include "millrace/pipeline/dataset.h"

namespace millrace {

/// `dataset_bench --save`: writes the elements of the dataset, with `--batches` the first ones, to a folder, and
/// prints how many there were, as a line or as one JSON object. Throws what `Dataset::save` throws.
void run_save(const Dataset& dataset, const BenchOptions& options);

}  // namespace millrace
