#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "benchmarks/floor/batch_writer.h"
#include "benchmarks/floor/floor.h"
#include "benchmarks/floor/read_plan.h"
#include "benchmarks/floor/shard_stream.h"
#include "benchmarks/floor/task_threads.h"

namespace millrace {

/// The floor of workloads that make batches of the records of shards. Its tasks, in this order: the chunks that the
/// next window of batches needs are read, checked and, where the workload shuffles, copied out; then the batches of
/// this window are written.
class ShardFloor final : public Floor {
 public:
  /// `copies`: as of ReadPlan. Throws `kMemoryBudget` when the places take too much memory.
  ShardFloor(Schedule schedule, bool copies, const BatchWriting& writing, int threads);

  int64_t rows() const override { return static_cast<int64_t>(schedule_.rows.size()); }
  int64_t bytes() const override { return schedule_.batch_bytes; }
  std::span<const uint64_t> expected() const override { return expected_; }
  void pass(std::vector<uint64_t>* digests) override;

 private:
  struct Task {
    bool reads;
    uint32_t window;
    size_t index;  // of the chunk or the batch
  };
  // What one thread has for itself.
  struct Worker {
    Worker(BufferPool& pool, const BatchWriting& writing, uint64_t chunk_bytes)
        : chunk(chunk_bytes), batch(pool, writing.schema), writer(writing.make_writer()) {}
    std::vector<std::byte> chunk;  // is read to, where payloads are copied out
    FloorBatch batch;
    std::unique_ptr<BatchWriter> writer;
    uint32_t windows_read = 0;  // are known to be
    uint32_t windows_written = 0;
    uint64_t touched = 0;
  };
  // Of a pass over a shard.
  struct Stream {
    UnpackedShard unpacked;
    std::vector<std::atomic<uint32_t>> remaining;  // 1 for each chunk of a compressed one that is not unpacked
  };

  void read_chunk(const Task& task, Worker& worker);
  void write_batch(const Task& task, Worker& worker, std::vector<uint64_t>* digests);

  const Schedule schedule_;
  const bool copies_;
  const ReadPlan plan_;
  const int threads_;
  std::vector<uint64_t> expected_;
  std::vector<Task> tasks_;
  std::deque<OpenShard> files_;
  BufferPool pool_;
  Buffer memory_;
  std::vector<std::string_view> payloads_;  // of the rows
  std::deque<Worker> workers_;
  std::vector<Stream> streams_;
  std::vector<std::atomic<uint32_t>> unread_;     // chunks by window
  std::vector<std::atomic<uint32_t>> unwritten_;  // batches by window
  TaskThreads task_threads_;
};

}  // namespace millrace
