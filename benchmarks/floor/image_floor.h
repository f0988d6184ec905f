#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "benchmarks/floor/floor.h"
#include "benchmarks/floor/floor_batch.h"
#include "benchmarks/floor/row_filler.h"
#include "benchmarks/floor/schedule.h"
#include "benchmarks/floor/shard_stream.h"
#include "benchmarks/floor/task_threads.h"

namespace millrace {

/// The floor of workloads whose rows take long, `images`, `jpeg` and `jpeg_scaled`: a task reads and checks one record
/// and makes a row of it, straight in its place in the batch. A record is read when its turn has come, so nothing is
/// copied for a shuffle. Two batches are in the making at a time.
class ImageFloor final : public Floor {
 public:
  /// Throws `kInvalidArgument` for compressed shards.
  ImageFloor(Schedule schedule, const RowFilling& filling, int threads);

  int64_t rows() const override { return static_cast<int64_t>(schedule_.rows.size()); }
  int64_t bytes() const override { return schedule_.batch_bytes; }
  std::span<const uint64_t> expected() const override { return expected_; }
  void pass(std::vector<uint64_t>* digests) override;

 private:
  // What one thread has for itself.
  struct Worker {
    std::vector<std::byte> record;
    std::unique_ptr<RowFiller> filler;
  };

  void write_row(size_t row, Worker& worker, std::vector<uint64_t>* digests);

  const Schedule schedule_;
  const int threads_;
  std::vector<uint64_t> expected_;
  std::vector<uint32_t> batch_of_row_;
  std::deque<OpenShard> files_;
  BufferPool pool_;
  std::deque<FloorBatch> batches_;  // batch b is in the place b modulo their number
  std::vector<Worker> workers_;
  std::vector<std::atomic<uint32_t>> unwritten_;   // rows by batch
  std::vector<std::atomic<uint32_t>> unfinished_;  // 1 by batch: it may not be written over
  std::atomic<uint64_t> touched_{0};
  TaskThreads task_threads_;
};

}  // namespace millrace
