#include "benchmarks/floor/shard_floor.h"

#include <cstring>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

constexpr uint64_t kMostMemory = uint64_t{4} << 30;

uint64_t checked_memory(uint64_t bytes) {
  if (bytes > kMostMemory) {
    throw ErrorException(ErrorCode::kMemoryBudget,
                         fmt::format("floor: the records that wait take {} bytes, more than {}", bytes, kMostMemory));
  }
  return bytes;
}

}  // namespace

ShardFloor::ShardFloor(Schedule schedule, bool copies, const BatchWriting& writing, int threads)
    : schedule_(std::move(schedule)),
      copies_(copies),
      plan_(schedule_, copies, threads),
      threads_(threads),
      memory_(pool_.allocate(checked_memory(plan_.memory))),
      payloads_(schedule_.rows.size()),
      streams_(plan_.num_streams),
      unread_(plan_.windows.size()),
      unwritten_(plan_.windows.size()) {
  std::memset(memory_->data(), 0, plan_.memory);
  for (const ScheduledBatch& batch : schedule_.batches) expected_.push_back(batch.digest);
  for (const ScheduledShard& shard : schedule_.shards) files_.emplace_back(shard.path);
  for (int i = 0; i < threads; ++i) workers_.emplace_back(pool_, writing, copies ? plan_.largest_chunk : 0);
  std::vector<uint32_t> chunks(plan_.num_streams);
  for (const ReadPlan::Chunk& chunk : plan_.chunks) {
    if (schedule_.shards[chunk.shard].compression != Compression::kNone) ++chunks[chunk.stream];
  }
  for (size_t s = 0; s < streams_.size(); ++s) streams_[s].remaining = std::vector<std::atomic<uint32_t>>(chunks[s]);
  const auto add_chunks = [this](uint32_t w) {
    for (size_t i = 0; i < plan_.windows[w].num_chunks; ++i) {
      tasks_.push_back({true, w, plan_.windows[w].first_chunk + i});
    }
  };
  for (uint32_t w = 0; w < plan_.windows.size(); ++w) {
    if (w == 0) add_chunks(0);
    if (w + 1 < plan_.windows.size()) add_chunks(w + 1);
    for (size_t i = 0; i < plan_.windows[w].num_batches; ++i) {
      tasks_.push_back({false, w, plan_.windows[w].first_batch + i});
    }
  }
}

void ShardFloor::pass(std::vector<uint64_t>* digests) {
  if (digests != nullptr) digests->assign(schedule_.batches.size(), 0);
  for (Stream& stream : streams_) {
    for (std::atomic<uint32_t>& remaining : stream.remaining) remaining.store(1, std::memory_order_relaxed);
    stream.unpacked.close();
  }
  for (size_t w = 0; w < plan_.windows.size(); ++w) {
    unread_[w].store(static_cast<uint32_t>(plan_.windows[w].num_chunks), std::memory_order_relaxed);
    unwritten_[w].store(static_cast<uint32_t>(plan_.windows[w].num_batches), std::memory_order_relaxed);
  }
  for (Worker& worker : workers_) worker.windows_read = worker.windows_written = 0;
  task_threads_.run(threads_, tasks_.size(), [&](size_t index, int thread) {
    const Task& task = tasks_[index];
    Worker& worker = workers_[static_cast<size_t>(thread)];
    task.reads ? read_chunk(task, worker) : write_batch(task, worker, digests);
  });
}

void ShardFloor::read_chunk(const Task& task, Worker& worker) {
  for (; worker.windows_written + ReadPlan::kWindowsApart <= task.window; ++worker.windows_written) {
    task_threads_.wait_for_none(unwritten_[worker.windows_written]);
  }
  const ReadPlan::Chunk& chunk = plan_.chunks[task.index];
  const ScheduledShard& shard = schedule_.shards[chunk.shard];
  const OpenShard& file = files_[chunk.shard];
  std::byte* const target = copies_ ? worker.chunk.data() : memory_->data() + chunk.place;
  const std::span<std::byte> bytes(target, chunk.end - chunk.begin);
  Stream& stream = streams_[chunk.stream];
  if (stream.remaining.empty()) {
    if (file.read(chunk.begin, bytes) != bytes.size()) {
      throw ErrorException({.code = ErrorCode::kTruncated,
                            .message = "the file has become shorter since the order was found",
                            .shard = shard.path});
    }
  } else {
    if (chunk.index > 0) task_threads_.wait_for_none(stream.remaining[chunk.index - 1]);
    stream.unpacked.read(file, shard.compression, bytes);
    if (chunk.index + 1 == stream.remaining.size()) stream.unpacked.close();
    stream.remaining[chunk.index].store(0, std::memory_order_release);
  }
  for (size_t i = 0; i < chunk.num_records; ++i) {
    const ReadPlan::Record& record = plan_.records[chunk.first_record + i];
    if (record.row == ReadPlan::kNoRow) continue;
    const ScheduledRecord& expected = shard.records[record.record];
    const std::string_view payload = checked_payload(target + (expected.offset - chunk.begin), expected, shard.path);
    std::string_view& placed = payloads_[record.row];
    placed = payload;
    if (!copies_) continue;
    std::byte* const place = memory_->data() + record.place;
    std::memcpy(place, payload.data(), payload.size());
    placed = {reinterpret_cast<const char*>(place), payload.size()};
  }
  unread_[task.window].fetch_sub(1, std::memory_order_release);
}

void ShardFloor::write_batch(const Task& task, Worker& worker, std::vector<uint64_t>* digests) {
  for (; worker.windows_read <= task.window; ++worker.windows_read) {
    task_threads_.wait_for_none(unread_[worker.windows_read]);
  }
  const ScheduledBatch& batch = schedule_.batches[task.index];
  worker.writer->write(batch, std::span(payloads_).subspan(batch.first_row, batch.num_rows), worker.batch);
  worker.touched += worker.batch.touch(batch.num_rows);
  if (digests != nullptr) (*digests)[task.index] = worker.batch.digest();
  unwritten_[task.window].fetch_sub(1, std::memory_order_release);
}

}  // namespace millrace
