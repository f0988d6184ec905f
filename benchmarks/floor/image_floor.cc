#include "benchmarks/floor/image_floor.h"

#include <algorithm>

#include "millrace/formats/error.h"
#include "millrace/formats/tfrecord/frame.h"

namespace millrace {
namespace {

constexpr size_t kBatchesAtOnce = 2;

}  // namespace

ImageFloor::ImageFloor(Schedule schedule, const RowFilling& filling, int threads)
    : schedule_(std::move(schedule)),
      threads_(threads),
      unwritten_(schedule_.batches.size()),
      unfinished_(schedule_.batches.size()) {
  uint64_t largest = 0;
  for (const ScheduledShard& shard : schedule_.shards) {
    if (shard.compression != Compression::kNone) {
      throw ErrorException(ErrorCode::kInvalidArgument, "images have a floor for shards without compression only");
    }
    files_.emplace_back(shard.path);
    for (const ScheduledRecord& record : shard.records) largest = std::max(largest, record.bytes);
  }
  for (int i = 0; i < threads; ++i) {
    workers_.push_back({std::vector<std::byte>(largest + kFrameBytes), filling.make_filler()});
  }
  for (size_t b = 0; b < schedule_.batches.size(); ++b) {
    expected_.push_back(schedule_.batches[b].digest);
    batch_of_row_.insert(batch_of_row_.end(), schedule_.batches[b].num_rows, static_cast<uint32_t>(b));
  }
  size_t most_rows = 0;
  for (const ScheduledBatch& batch : schedule_.batches) most_rows = std::max(most_rows, batch.num_rows);
  for (size_t i = 0; i < kBatchesAtOnce; ++i) {
    FloorBatch& batch = batches_.emplace_back(pool_, filling.schema);
    for (size_t c = 0; c < filling.schema->size(); ++c) {
      const Shape& row_shape = (*filling.schema)[c].shape;
      std::vector<int64_t> shape(row_shape.begin(), row_shape.end());
      shape.insert(shape.begin(), static_cast<int64_t>(most_rows));
      batch.begin_column(c, shape);
    }
  }
}

void ImageFloor::pass(std::vector<uint64_t>* digests) {
  if (digests != nullptr) digests->assign(schedule_.batches.size(), 0);
  for (size_t b = 0; b < schedule_.batches.size(); ++b) {
    unwritten_[b].store(static_cast<uint32_t>(schedule_.batches[b].num_rows), std::memory_order_relaxed);
    unfinished_[b].store(1, std::memory_order_relaxed);
  }
  task_threads_.run(threads_, schedule_.rows.size(),
                    [&](size_t row, int thread) { write_row(row, workers_[static_cast<size_t>(thread)], digests); });
}

void ImageFloor::write_row(size_t row, Worker& worker, std::vector<uint64_t>* digests) {
  const size_t number = batch_of_row_[row];
  if (number >= kBatchesAtOnce) task_threads_.wait_for_none(unfinished_[number - kBatchesAtOnce]);
  const ScheduledBatch& batch = schedule_.batches[number];
  const ScheduledRecord& expected = schedule_.record(schedule_.rows[row]);
  const OpenShard& file = files_[schedule_.rows[row].shard];
  const std::span<std::byte> frame = std::span(worker.record).first(expected.bytes + kFrameBytes);
  if (file.read(expected.offset, frame) != frame.size()) {
    throw ErrorException({.code = ErrorCode::kTruncated,
                          .message = "the file has become shorter since the order was found",
                          .shard = file.path()});
  }
  FloorBatch& out = batches_[number % kBatchesAtOnce];
  const std::string_view payload = checked_payload(frame.data(), expected, file.path());
  try {
    worker.filler->fill(batch, row - batch.first_row, payload, out);
  } catch (const ErrorException& exception) {
    Error error = exception.error();
    error.shard = file.path();
    error.offset = static_cast<int64_t>(expected.offset);
    error.record = schedule_.rows[row].record;
    throw ErrorException(std::move(error));
  }
  if (unwritten_[number].fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  touched_.fetch_add(out.touch(batch.num_rows), std::memory_order_relaxed);
  if (digests != nullptr) (*digests)[number] = out.digest();
  unfinished_[number].store(0, std::memory_order_release);
}

}  // namespace millrace
