#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <vector>

#include "benchmarks/floor/floor.h"
#include "benchmarks/floor/floor_batch.h"
#include "benchmarks/floor/task_threads.h"

namespace millrace {

/// The floor of workloads whose rows are in memory already: some batches are a task, each thread writes its own over
/// and over.
class MemoryFloor final : public Floor {
 public:
  struct Work {
    SchemaPtr schema;
    int64_t rows = 0;
    int64_t bytes = 0;
    std::vector<uint64_t> expected;
    size_t batches_per_task = 1;
    /// Writes a batch and returns its number of rows.
    std::function<size_t(size_t batch, FloorBatch& out)> write;
  };
  MemoryFloor(Work work, int threads);

  int64_t rows() const override { return work_.rows; }
  int64_t bytes() const override { return work_.bytes; }
  std::span<const uint64_t> expected() const override { return work_.expected; }
  void pass(std::vector<uint64_t>* digests) override;

 private:
  struct Worker {
    FloorBatch batch;
    uint64_t touched = 0;
  };

  const Work work_;
  BufferPool pool_;
  std::deque<Worker> workers_;
  TaskThreads task_threads_;
};

}  // namespace millrace
