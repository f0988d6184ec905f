#include "benchmarks/floor/image_floor.h"

#include <algorithm>

#include "benchmarks/workload_features.h"
#include "millrace/formats/error.h"
#include "millrace/formats/example/tensor_message.h"
#include "millrace/formats/tfrecord/frame.h"

namespace millrace {
namespace {

constexpr size_t kBatchesAtOnce = 2;

std::vector<FeatureDescription> image_messages() {
  std::vector<FeatureDescription> features;
  for (const WorkloadImage& image : workload_images()) features.push_back(fixed_len(image.feature, {}, DType::kBytes));
  return features;
}

SchemaPtr image_schema() {
  std::vector<FeatureSpec> features;
  for (const WorkloadImage& image : workload_images()) {
    features.push_back({image.feature, DType::kFloat32, image.shape});
  }
  return std::make_shared<const Schema>(std::move(features));
}

}  // namespace

ImageFloor::ImageFloor(Schedule schedule, int threads)
    : schedule_(std::move(schedule)),
      threads_(threads),
      parser_(image_messages()),
      unwritten_(schedule_.batches.size()),
      unfinished_(schedule_.batches.size()) {
  uint64_t largest = 0;
  for (const ScheduledShard& shard : schedule_.shards) {
    if (shard.compression != Compression::kNone) {
      throw ErrorException(ErrorCode::kInvalidArgument, "images has a floor for shards without compression only");
    }
    files_.emplace_back(shard.path);
    for (const ScheduledRecord& record : shard.records) largest = std::max(largest, record.bytes);
  }
  records_.assign(static_cast<size_t>(threads), std::vector<std::byte>(largest + kFrameBytes));
  for (size_t b = 0; b < schedule_.batches.size(); ++b) {
    expected_.push_back(schedule_.batches[b].digest);
    batch_of_row_.insert(batch_of_row_.end(), schedule_.batches[b].num_rows, static_cast<uint32_t>(b));
  }
  const SchemaPtr schema = image_schema();
  size_t most_rows = 0;
  for (const ScheduledBatch& batch : schedule_.batches) most_rows = std::max(most_rows, batch.num_rows);
  for (size_t i = 0; i < kBatchesAtOnce; ++i) {
    FloorBatch& batch = batches_.emplace_back(pool_, schema);
    for (size_t c = 0; c < schema->size(); ++c) {
      std::vector<int64_t> shape((*schema)[c].shape.begin(), (*schema)[c].shape.end());
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
                    [&](size_t row, int thread) { write_row(row, records_[static_cast<size_t>(thread)], digests); });
}

void ImageFloor::write_row(size_t row, std::span<std::byte> record, std::vector<uint64_t>* digests) {
  const size_t number = batch_of_row_[row];
  if (number >= kBatchesAtOnce) task_threads_.wait_for_none(unfinished_[number - kBatchesAtOnce]);
  const ScheduledBatch& batch = schedule_.batches[number];
  const ScheduledRecord& expected = schedule_.record(schedule_.rows[row]);
  const OpenShard& file = files_[schedule_.rows[row].shard];
  const std::span<std::byte> frame = record.first(expected.bytes + kFrameBytes);
  if (file.read(expected.offset, frame) != frame.size()) {
    throw ErrorException({.code = ErrorCode::kTruncated,
                          .message = "the file has become shorter since the order was found",
                          .shard = file.path()});
  }
  std::array<std::string_view, 2> messages;
  const std::array<std::byte*, 2> places = {reinterpret_cast<std::byte*>(&messages[0]),
                                            reinterpret_cast<std::byte*>(&messages[1])};
  if (auto error = parser_.parse(checked_payload(frame.data(), expected, file.path()), pool_, places)) {
    throw ErrorException(*std::move(error));
  }
  FloorBatch& out = batches_[number % kBatchesAtOnce];
  for (size_t c = 0; c < messages.size(); ++c) {
    const TensorMessage tensor = TensorMessage::read(messages[c], pool_);
    const size_t at = (row - batch.first_row) * static_cast<size_t>(tensor.num_values());
    tensor.copy_to(DType::kFloat32, reinterpret_cast<std::byte*>(out.values<float>(c) + at));
  }
  if (unwritten_[number].fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  touched_.fetch_add(out.touch(batch.num_rows), std::memory_order_relaxed);
  if (digests != nullptr) (*digests)[number] = out.digest();
  unfinished_[number].store(0, std::memory_order_release);
}

}  // namespace millrace
