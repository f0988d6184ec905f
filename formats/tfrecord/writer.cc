#include "formats/tfrecord/writer.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "formats/error.h"
#include "formats/tfrecord/crc.h"

namespace millrace {
namespace {

constexpr size_t kBufferBytes = 256 << 10;

std::string temporary_name(const std::string& path) {
  static std::atomic<int> counter{0};  // two writers of one process may write the same name
  return fmt::format("{}.tmp-{}-{}", path, ::getpid(), counter.fetch_add(1));
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

template <typename T>
void append_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

RecordWriter::RecordWriter(std::string path, RecordWriterOptions options) : path_(std::move(path)), options_(options) {
  if (options_.compression != Compression::kNone) deflater_.emplace(options_.compression, options_.level);
  written_path_ = options_.in_place ? path_ : temporary_name(path_);
  const int how = options_.in_place ? O_TRUNC : O_EXCL;
  descriptor_ = ::open(written_path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
  if (descriptor_ < 0) fail("cannot create the file");
}

RecordWriter::RecordWriter(RecordWriter&& other) noexcept
    : path_(std::move(other.path_)),
      written_path_(std::move(other.written_path_)),
      options_(other.options_),
      deflater_(std::move(other.deflater_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      failed_(other.failed_),
      frames_(std::move(other.frames_)),
      buffer_(std::move(other.buffer_)),
      num_records_(other.num_records_),
      num_bytes_(other.num_bytes_) {}

RecordWriter::~RecordWriter() {
  if (descriptor_ < 0) return;
  if (options_.in_place && !failed_) {
    // A log keeps what was written, whole or not.
    try {
      flush();
    } catch (const ErrorException&) {
    }
  }
  discard();
}

void RecordWriter::discard() noexcept {
  if (descriptor_ < 0) return;
  ::close(std::exchange(descriptor_, -1));
  if (!options_.in_place) ::unlink(written_path_.c_str());
}

void RecordWriter::fail(std::string_view what) {
  const int number = errno;
  failed_ = true;
  discard();
  throw ErrorException(
      {.code = ErrorCode::kIo, .message = fmt::format("{}: {}", what, std::strerror(number)), .shard = path_});
}

void RecordWriter::write(std::string_view record) {
  if (descriptor_ < 0) {
    throw ErrorException(
        {.code = ErrorCode::kIo,
         .message = failed_ ? "cannot write a record after an earlier failure" : "cannot write a record after close",
         .shard = path_});
  }
  std::string& out = deflater_ ? frames_ : buffer_;
  append_raw<uint64_t>(out, record.size());
  append_raw<uint32_t>(out, masked_crc32c_of_length(record.size()));
  out.append(record);
  append_raw<uint32_t>(out, masked_crc32c(record));
  ++num_records_;
  num_bytes_ += static_cast<int64_t>(record.size()) + 16;
  if (frames_.size() >= kBufferBytes) {
    deflater_->write(frames_, buffer_);
    frames_.clear();
  }
  if (buffer_.size() >= kBufferBytes) write_out();
}

void RecordWriter::write_out() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t count = ::write(descriptor_, rest.data(), rest.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      fail("cannot write");
    }
    rest.remove_prefix(static_cast<size_t>(count));
  }
  buffer_.clear();
}

void RecordWriter::flush() {
  if (descriptor_ < 0) return;
  if (deflater_) {
    deflater_->write(frames_, buffer_);
    frames_.clear();
    deflater_->flush(buffer_);
  }
  write_out();
}

void RecordWriter::close() {
  if (descriptor_ < 0) {
    if (!failed_) return;
    throw ErrorException({.code = ErrorCode::kIo, .message = "cannot close after an earlier failure", .shard = path_});
  }
  if (deflater_) {
    deflater_->write(frames_, buffer_);
    frames_.clear();
    deflater_->finish(buffer_);
  }
  write_out();
  if (::fsync(descriptor_) != 0) fail("cannot bring the file to the disk");
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    // The data may be lost (network file systems report a full disk here): the temporary file has no use any more.
    const int number = errno;
    if (!options_.in_place) ::unlink(written_path_.c_str());
    errno = number;
    fail("cannot close the file");
  }
  if (options_.in_place) return;
  if (std::rename(written_path_.c_str(), path_.c_str()) != 0) {
    const int number = errno;
    ::unlink(written_path_.c_str());
    errno = number;
    fail("cannot give the file its name");
  }
  // The name itself must survive a power cut too. Some file systems cannot sync a folder; then there is nothing to do.
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
}

}  // namespace millrace
