#include "benchmarks/floor/memory_floor.h"

namespace millrace {

MemoryFloor::MemoryFloor(Work work, int threads) : work_(std::move(work)) {
  for (int i = 0; i < threads; ++i) workers_.push_back({FloorBatch(pool_, work_.schema)});
}

void MemoryFloor::pass(std::vector<uint64_t>* digests) {
  const size_t batches = work_.expected.size();
  if (digests != nullptr) digests->assign(batches, 0);
  const size_t tasks = (batches + work_.batches_per_task - 1) / work_.batches_per_task;
  task_threads_.run(static_cast<int>(workers_.size()), tasks, [&](size_t task, int thread) {
    Worker& worker = workers_[static_cast<size_t>(thread)];
    const size_t end = std::min(batches, (task + 1) * work_.batches_per_task);
    for (size_t batch = task * work_.batches_per_task; batch < end; ++batch) {
      const size_t rows = work_.write(batch, worker.batch);
      worker.touched += worker.batch.touch(rows);
      if (digests != nullptr) (*digests)[batch] = worker.batch.digest();
    }
  });
}

}  // namespace millrace
