#pragma once

#include "benchmarks/floor/batch_writer.h"

namespace millrace {

/// Batches of the workloads `bucket` and `pad`: tokens padded to the longest row with zeros, and labels.
[[nodiscard]] BatchWriting token_writing();

}  // namespace millrace
