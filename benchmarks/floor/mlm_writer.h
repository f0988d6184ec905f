#pragma once

#include "benchmarks/floor/batch_writer.h"

namespace millrace {

/// Batches of the workload `mlm`: ids and attention mask of 512 positions are parsed, tokens masked.
[[nodiscard]] BatchWriting mlm_writing(uint64_t seed);

}  // namespace millrace
