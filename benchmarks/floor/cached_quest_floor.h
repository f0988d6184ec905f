#pragma once

#include "benchmarks/floor/memory_floor.h"
#include "benchmarks/floor/schedule.h"

namespace millrace {

/// The workload `quest --cache`: rows that were parsed before are gathered into batches. What keeps them apart from
/// the batches is their order, so each is copied once.
[[nodiscard]] MemoryFloor::Work cached_quest_work(Schedule schedule);

}  // namespace millrace
