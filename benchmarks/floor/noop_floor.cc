#include "benchmarks/floor/noop_floor.h"

#include <numeric>

#include "benchmarks/bench_run.h"
#include "benchmarks/workload_features.h"
#include "benchmarks/workloads.h"
#include "millrace/pipeline/stream_hash.h"

namespace millrace {

MemoryFloor::Work noop_work(const BenchOptions& options) {
  constexpr int64_t kRows = int64_t{1} << 24;
  constexpr int64_t kRowsPerTask = 1 << 16;
  MemoryFloor::Work work;
  work.batches_per_task = static_cast<size_t>(std::max<int64_t>(1, kRowsPerTask / options.batch));
  Pipeline pipeline = make_workload(options).dataset.start(start_options(options));
  while (work.rows < kRows) {
    const std::optional<Batch> batch = pipeline.next();
    if (!batch) break;
    work.schema = batch->block().schema();
    work.rows += batch->num_rows();
    work.bytes += batch->block().byte_size();
    work.expected.push_back(batch_hash(*batch));
  }
  work.write = [rows = options.batch](size_t batch, FloorBatch& out) {
    out.begin_column(0, {&rows, 1});
    auto* values = out.values<int64_t>(0);
    std::iota(values, values + rows, static_cast<int64_t>(batch) * rows + kNoopMaps);
    return static_cast<size_t>(rows);
  };
  return work;
}

}  // namespace millrace
