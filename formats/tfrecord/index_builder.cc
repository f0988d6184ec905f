#include "formats/tfrecord/index_builder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "formats/columnar/buffer.h"
#include "formats/compression/inflate.h"
#include "formats/storage/blocking_file.h"
#include "formats/tfrecord/crc.h"
#include "formats/tfrecord/recognition.h"

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
    if (!plain) {
      inflater_.emplace(parts_.compression, InflateEngine::kZlib);
      inflater_->find_seek_points(options_.seek_point_distance);
    }
    for (; !chunk.empty(); chunk = read()) plain ? take(chunk) : unpack(chunk);
    if (inflater_ && !inflater_->finish()) fail(inflater_->error());
    records_->finish();
    walk();
    parts_.entries.push_back(ShardIndex::entry(next_offset_, 0));
    if (inflater_) parts_.points = inflater_->take_seek_points();
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
      const Inflater::Result result = inflater_->run(input, room);
      input = input.subspan(result.num_read);
      full = result.status == Inflater::Status::kOutputFull;
      records_->commit(result.num_written);
      walk();
      if (result.status == Inflater::Status::kError) fail(inflater_->error());
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
  std::optional<Inflater> inflater_;
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
