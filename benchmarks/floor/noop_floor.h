#pragma once

#include "benchmarks/floor/memory_floor.h"

namespace millrace {

/// The workloads `noop` and `noop_rows`: numbers from 0 on, plus what their maps add in all.
[[nodiscard]] MemoryFloor::Work noop_work(const BenchOptions& options);

}  // namespace millrace
