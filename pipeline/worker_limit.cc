#include "millrace/pipeline/worker_limit.h"

#include <oneapi/tbb/global_control.h>

namespace millrace {

struct WorkerLimit::Control {
  tbb::global_control parallelism;
};

// A limit of n leaves n - 1 workers: oneTBB counts the calling thread.
WorkerLimit::WorkerLimit(int workers)
    : control_(new Control{{tbb::global_control::max_allowed_parallelism, static_cast<size_t>(workers) + 1}}) {}

WorkerLimit::~WorkerLimit() = default;

}  // namespace millrace
