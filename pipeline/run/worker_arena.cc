#include "millrace/pipeline/run/worker_arena.h"

#include <algorithm>

#include <oneapi/tbb/global_control.h>

namespace millrace {

tbb::task_arena worker_arena(int threads, int reserved) {
  // oneTBB counts the calling thread.
  const auto workers =
      static_cast<int>(tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism)) - 1;
  // An arena of one reserved slot makes room for a worker when it needs one; any other asks for it and is warned.
  if (workers == 0) return tbb::task_arena(1, 1);
  return tbb::task_arena(reserved + std::min(threads - reserved, workers), static_cast<unsigned>(reserved));
}

void initialize(tbb::task_arena& arena) noexcept { arena.initialize(); }

}  // namespace millrace
