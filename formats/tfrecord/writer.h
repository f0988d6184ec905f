#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/formats/compression/deflate.h"
#include "millrace/formats/compression/zstd_packer.h"

namespace millrace {

class AtomicFile;
class OutputFile;

struct RecordWriterOptions {
  /// How the file is stored. Default: none.
  Compression compression = Compression::kNone;
  /// Level of zlib, 0 to 9, or of zstd, 1 to 19; -1: its default of 6 or 3. Default: -1.
  int level = -1;
  /// Of zstd: bytes of records in a frame, which is what a reader unpacks to come to one of them; see ZstdPacker.
  /// Default: 256 KiB.
  size_t frame_bytes = 256 << 10;
  /// Write under the final name from the start, appending nothing to what was there before: for logs that are read
  /// while they grow (see `flush`); not of zstd, whose seek table comes at the end. Default: false, a temporary name
  /// until `close`.
  bool in_place = false;
};

/// Writes a TFRecord file: per record its length (8 bytes), the masked CRC32C of the length, the payload, the masked
/// CRC32C of the payload (https://www.tensorflow.org/tutorials/load_data/tfrecord).
///
///     RecordWriter writer("train-0.tfrecord", {.compression = Compression::kGzip});
///     writer.write(example.SerializeAsString());
///     writer.close();
///
/// The final name appears only when `close` has brought everything to the disk: a process that dies before leaves at
/// most `NAME.tmp-PID-N`, which no `*.tfrecord` pattern matches. A writer destroyed without `close` removes that file.
/// Every failure throws `kIo` and names the file; after one only destruction is left. One thread at a time.
class RecordWriter {
 public:
  explicit RecordWriter(std::string path, RecordWriterOptions options = {});
  ~RecordWriter();
  /// `other` is closed then.
  RecordWriter(RecordWriter&& other) noexcept;
  RecordWriter& operator=(RecordWriter&&) = delete;

  void write(std::string_view record);
  /// Hands all that was written to the operating system, so that readers of an `in_place` file see it.
  void flush();
  /// Gives the file another final name, in the same folder: for names that hold what is known only at the end, such as
  /// the number of records. Throws `kInvalidArgument` for another folder, for an `in_place` file and
  /// after `close`.
  void set_path(std::string path);
  /// Writes the rest, brings it to the disk (fsync) and gives the file its final name. A second call does nothing.
  void close();

  int64_t num_records() const { return num_records_; }
  /// Bytes of records with their frames, before compression.
  int64_t num_bytes() const { return num_bytes_; }
  const std::string& path() const { return path_; }

 private:
  void add(std::string_view bytes);
  void write_out();

  std::string path_;
  RecordWriterOptions options_;
  std::optional<Deflater> deflater_;
  std::optional<ZstdPacker> zstd_;
  std::unique_ptr<OutputFile> file_;   // none after `close` and after a failure
  AtomicFile* atomic_file_ = nullptr;  // the same file, unless it is in place
  bool failed_ = false;
  std::string frames_;  // not compressed yet
  std::string buffer_;  // ready for the disk
  int64_t num_records_ = 0;
  int64_t num_bytes_ = 0;
};

}  // namespace millrace
