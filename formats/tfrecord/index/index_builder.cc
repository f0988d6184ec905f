#include "millrace/formats/tfrecord/index/index_builder.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/columnar/buffer.h"
#include "millrace/formats/compression/frame_table.h"
#include "millrace/formats/compression/unpacker.h"
#include "millrace/formats/storage/blocking_file.h"
#include "millrace/formats/tfrecord/crc.h"
#include "millrace/formats/tfrecord/recognition.h"

namespace millrace {
namespace {

constexpr size_t kReadBytes = 1 << 20;
constexpr size_t kUnpackedBytes = 256 << 10;

class IndexBuilder {
 public:
  IndexBuilder(Storage& storage, const std::string& path, const IndexBuilderOptions& options)
      : options_(options), file_(storage, path) {
    parts_.fingerprint = read_shard_fingerprint(storage, path);
    parts_.entries.clear();
  }

  ShardIndex build() {
    std::string_view chunk = read();
    parts_.compression = file_.size() == 0 ? options_.compression.value_or(Compression::kNone)
                                           : recognize_compression(chunk, options_.compression);
    const bool plain = parts_.compression == Compression::kNone;
    records_.emplace(pool_, RecordReaderOptions{.shard = file_.path(),
                                                .max_shard_bytes = plain ? file_.size() : UINT64_MAX,
                                                .size_is_exact = plain,
                                                .max_record_bytes = options_.max_record_bytes});
    if (parts_.compression == Compression::kZstd) frames_ = read_frame_table();
    if (!plain) {
      unpacker_.emplace(parts_.compression, frames_, InflateEngine::kZlib);
      unpacker_->find_seek_points(options_.seek_point_distance);
    }
    for (; !chunk.empty(); chunk = read()) plain ? take(chunk) : unpack(chunk);
    if (unpacker_ && !unpacker_->finish()) fail(unpacker_->error());
    records_->finish();
    walk();
    parts_.entries.push_back(ShardIndex::entry(next_offset_, 0));
    if (unpacker_) parts_.points = unpacker_->take_seek_points();
    if (frames_ && next_offset_ > 0) {
      const uint64_t end = frames_->end_of_frames();
      parts_.points.push_back({.bit = 8 * end, .offset = next_offset_, .stream_begin = end});
    }
    if (next_offset_ >> ShardIndex::kOffsetBits != 0) {
      throw ErrorException(ErrorCode::kIndex, fmt::format("a shard of {} bytes cannot be indexed", next_offset_));
    }
    return ShardIndex(std::move(parts_));
  }

 private:
  // The next bytes of the file; none at its end.
  std::string_view read() {
    buffer_.resize(static_cast<size_t>(std::min<uint64_t>(kReadBytes, file_.size() - next_)));
    file_.read(next_, std::as_writable_bytes(std::span(buffer_)));
    next_ += buffer_.size();
    if (options_.on_progress && !buffer_.empty()) options_.on_progress(next_);
    return buffer_;
  }

  // Null when the shard has none.
  std::shared_ptr<const FrameTable> read_frame_table() {
    std::string end(std::min<uint64_t>(FrameTable::kFooterBytes, file_.size()), '\0');
    file_.read(file_.size() - end.size(), std::as_writable_bytes(std::span(end)));
    const std::optional<size_t> needed = FrameTable::bytes_needed(end, file_.size());
    if (!needed) return nullptr;
    end.resize(*needed);
    file_.read(file_.size() - end.size(), std::as_writable_bytes(std::span(end)));
    return std::make_shared<const FrameTable>(FrameTable::parse(end, file_.size()));
  }

  void take(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::span<std::byte> room = records_->prepare(bytes.size());
      const size_t count = std::min(room.size(), bytes.size());
      std::copy_n(std::as_bytes(std::span(bytes)).begin(), count, room.begin());
      records_->commit(count);
      bytes.remove_prefix(count);
      walk();
    }
  }

  void unpack(std::string_view bytes) {
    auto input = std::as_bytes(std::span(bytes));
    for (bool full = true; full || !input.empty();) {
      const std::span<std::byte> room = records_->prepare(kUnpackedBytes);
      const UnpackResult result = unpacker_->run(input, room);
      input = input.subspan(result.num_read);
      full = result.status == UnpackResult::Status::kOutputFull;
      records_->commit(result.num_written);
      walk();
      if (result.status == UnpackResult::Status::kError) fail(unpacker_->error());
    }
  }

  void walk() {
    for (;;) {
      switch (records_->next(batch_)) {
        case RecordReader::Step::kRecords:
          for (const std::string_view payload : batch_.payloads) {
            parts_.entries.push_back(ShardIndex::entry(next_offset_, static_cast<uint16_t>(masked_crc32c(payload))));
            next_offset_ += payload.size() + 16;
          }
          break;
        case RecordReader::Step::kError: throw ErrorException(records_->fault().error);
        case RecordReader::Step::kNeedBytes:
        case RecordReader::Step::kEnd: return;
      }
    }
  }

  [[noreturn]] void fail(Error error) const {
    error.shard = file_.path();
    error.offset = static_cast<int64_t>(records_->position().offset);
    error.record = static_cast<int64_t>(records_->position().record);
    throw ErrorException(std::move(error));
  }

  const IndexBuilderOptions& options_;
  BlockingFile file_;
  BufferPool pool_;
  std::string buffer_;
  uint64_t next_ = 0;
  std::optional<RecordReader> records_;
  std::shared_ptr<const FrameTable> frames_;  // of a zstd shard that has a seek table
  std::optional<Unpacker> unpacker_;
  RecordBatch batch_;
  uint64_t next_offset_ = 0;  // of the next record
  ShardIndex::Parts parts_;
};

}  // namespace

ShardIndex build_shard_index(Storage& storage, const std::string& path, const IndexBuilderOptions& options) {
  try {
    return IndexBuilder(storage, path, options).build();
  } catch (const ErrorException& exception) {
    Error error = exception.error();
    if (error.shard.empty()) error.shard = path;
    throw ErrorException(std::move(error));
  }
}

}  // namespace millrace
