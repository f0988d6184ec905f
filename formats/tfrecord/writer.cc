#include "millrace/formats/tfrecord/writer.h"

#include <utility>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/growing_file.h"
#include "millrace/formats/tfrecord/crc.h"
#include "millrace/formats/tfrecord/frame.h"

namespace millrace {
namespace {

constexpr size_t kBufferBytes = 256 << 10;

template <typename T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

}  // namespace

RecordWriter::RecordWriter(std::string path, RecordWriterOptions options) : path_(std::move(path)), options_(options) {
  switch (options_.compression) {
    case Compression::kNone: break;
    case Compression::kZstd:
      if (options_.in_place) {
        throw ErrorException({.code = ErrorCode::kInvalidArgument,
                              .message = "a file written in place cannot be ZSTD, whose seek table comes at the end",
                              .shard = path_});
      }
      zstd_.emplace(options_.level == -1 ? ZstdPacker::kDefaultLevel : options_.level, options_.frame_bytes);
      break;
    case Compression::kZlib:
    case Compression::kGzip: deflater_.emplace(options_.compression, options_.level);
  }
  if (options_.in_place) {
    file_ = std::make_unique<GrowingFile>(path_);
  } else {
    auto file = std::make_unique<AtomicFile>(path_);
    atomic_file_ = file.get();
    file_ = std::move(file);
  }
}

RecordWriter::RecordWriter(RecordWriter&& other) noexcept = default;

RecordWriter::~RecordWriter() {
  if (!file_ || !options_.in_place) return;
  // A log keeps what was written, whole or not.
  try {
    flush();
  } catch (const ErrorException&) {
  }
}

void RecordWriter::write(std::string_view record) {
  if (!file_) {
    throw ErrorException(
        {.code = ErrorCode::kIo,
         .message = failed_ ? "cannot write a record after an earlier failure" : "cannot write a record after close",
         .shard = path_});
  }
  if (zstd_) zstd_->begin_record(record.size() + kFrameBytes, buffer_);
  const uint64_t length = record.size();
  const uint32_t length_crc = masked_crc32c_of_length(length);
  const uint32_t crc = masked_crc32c(record);
  add(bytes_of(length));
  add(bytes_of(length_crc));
  add(record);
  add(bytes_of(crc));
  ++num_records_;
  num_bytes_ += static_cast<int64_t>(record.size() + kFrameBytes);
  if (frames_.size() >= kBufferBytes) {
    deflater_->write(frames_, buffer_);
    frames_.clear();
  }
  if (buffer_.size() >= kBufferBytes) write_out();
}

void RecordWriter::add(std::string_view bytes) {
  if (zstd_) {
    zstd_->write(bytes, buffer_);
  } else {
    (deflater_ ? frames_ : buffer_).append(bytes);
  }
}

void RecordWriter::write_out() {
  try {
    file_->write(buffer_);
  } catch (const ErrorException&) {
    failed_ = true;
    file_ = nullptr;
    throw;
  }
  buffer_.clear();
}

void RecordWriter::flush() {
  if (!file_) return;
  if (deflater_) {
    deflater_->write(frames_, buffer_);
    frames_.clear();
    deflater_->flush(buffer_);
  }
  if (zstd_) zstd_->flush(buffer_);
  write_out();
}

void RecordWriter::set_path(std::string path) {
  if (!file_ || options_.in_place) {
    throw ErrorException({.code = ErrorCode::kInvalidArgument,
                          .message = options_.in_place ? "a file written in place keeps its name"
                                                       : "cannot give the file another name after close",
                          .shard = path_});
  }
  atomic_file_->set_path(path);
  path_ = std::move(path);
}

void RecordWriter::close() {
  if (!file_) {
    if (!failed_) return;
    throw ErrorException({.code = ErrorCode::kIo, .message = "cannot close after an earlier failure", .shard = path_});
  }
  if (deflater_) {
    deflater_->write(frames_, buffer_);
    frames_.clear();
    deflater_->finish(buffer_);
  }
  if (zstd_) zstd_->finish(buffer_);
  write_out();
  failed_ = true;  // unless the next line returns
  const std::unique_ptr<OutputFile> file = std::move(file_);
  file->commit();
  failed_ = false;
}

}  // namespace millrace
