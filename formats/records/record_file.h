#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "millrace/formats/columnar/memory_gate.h"
#include "millrace/formats/compression/compression.h"
#include "millrace/formats/compression/frame_table_reader.h"
#include "millrace/formats/compression/unpacked_feed.h"
#include "millrace/formats/records/record_splitter.h"
#include "millrace/formats/storage/byte_window.h"
#include "millrace/formats/storage/file_feed.h"

namespace millrace {

struct RecordFileOptions {
  /// How the file is stored. Default: as it is.
  Compression compression = Compression::kNone;
  /// The record to begin with. In a compressed file everything before it is unpacked and dropped, in a zstd file with a
  /// seek table only what is in the same frame. Default: the first.
  FilePlace start;
  /// The number of records in the whole file: another number is the error `cardinality`. Default: not known.
  std::optional<uint64_t> num_records;
  /// Bytes asked from the storage at a time. Default: 256 KiB.
  size_t chunk_bytes = 256 << 10;
  /// Chunks that are read ahead while one is walked, when the storage does not answer at once. Default: 2.
  size_t read_ahead = 2;
  /// What chunks may come to of a file that advises several reads in flight (`File::advice`). Default: 0, as many of
  /// `chunk_bytes` as are read ahead of another.
  size_t most_bytes_ahead = 0;
  /// Files that are read at a time, this one included: they share the reads that such a storage has in flight.
  /// Default: 1.
  size_t num_files = 1;
  /// Whether reading goes on after a record that is damaged, where that can be found, and a file whose size cannot be
  /// is read up to there. Default: an error is the end.
  bool passes_damage = false;
  /// Whether records that are too long are among them. Default: they are.
  bool passes_long_records = true;
  /// Is asked before memory for a record longer than a chunk is taken. Default: nobody.
  MemoryGate* memory = nullptr;
  /// How often a retriable error is tried, see range_reader.h. Default: 5.
  int max_attempts = kDefaultMaxAttempts;
};

/// Reads the records of one file of any kind that a `RecordSplitter` knows, without ever blocking: file, decompression
/// and records tied together. (TFRecord files, whose damage can be passed, have a reader of their own: ShardReader.)
///
///     RecordFileReader reader(storage, pool, "a.txt", std::make_unique<LineSplitter>(), {}, [&] { node.wake(); });
///     CutRecords records;
///     switch (reader.next(records)) {
///       case RecordFileReader::Step::kRecords: ...   // records.payloads
///       case RecordFileReader::Step::kPending: ...   // wake is called when asking again makes sense
///       case RecordFileReader::Step::kError: ...     // reader.error(); then the end
///       case RecordFileReader::Step::kEnd: ...
///     }
///
/// The rules for calls, `wake` and destruction are those of ShardReader. A checkpoint holds `place()`.
class RecordFileReader {
 public:
  enum class Step {
    kRecords,  ///< there is at least one record
    kEnd,      ///< no more records, or after an error that cannot be passed
    kPending,  ///< not now: `wake` will be called
    kError,    ///< see `error()`; the rest of the file is lost, unless it `can_continue()`
  };

  RecordFileReader(Storage& storage, BufferPool& pool, std::string path, std::unique_ptr<RecordSplitter> splitter,
                   const RecordFileOptions& options, std::function<void()> wake);
  ~RecordFileReader();
  RecordFileReader(const RecordFileReader&) = delete;
  RecordFileReader& operator=(const RecordFileReader&) = delete;

  /// The next records, at most `max_records`, all from one buffer. Records before an error come first.
  Step next(CutRecords& records, size_t max_records = SIZE_MAX);
  /// Lets go of the memory of the last records as soon as they do, for who has copied them. Not where more than a
  /// sixteenth of it is still to be given.
  void leave_buffer() { bytes_.leave_buffer(); }
  /// The error, with shard, offset and record. Valid after kError.
  const Error& error() const { return error_; }
  /// Whether reading goes on after the error, at `place()`. Valid after kError.
  bool can_continue() const { return !ended_; }
  /// After the last byte that is lost to an error that cannot be passed; nothing where nobody knows: the size of a
  /// compressed file. Valid after kError.
  std::optional<uint64_t> end_of_file() const {
    return unpacked_ ? std::nullopt : std::optional(std::max(file_bytes_, place_.offset));
  }
  /// Of the record that `next` gives next.
  const FilePlace& place() const { return place_; }

 private:
  using Got = FileFeed::Got;

  // A record that was refused, while its end is sought.
  struct Passing {
    Error error;
    FilePlace to;  // as far as is known
  };

  Step fail(Error error);
  void tell(Error error);
  bool may_pass(const Error& error) const;
  bool pass();
  Step end();
  Got open();
  Got find_frame();
  Got fetch();
  Got fetch_plain();
  Got fetch_unpacked();
  bool prepare(size_t bytes);
  void make_room(size_t bytes);

  Storage& storage_;
  const std::string path_;
  const RecordFileOptions options_;
  const std::unique_ptr<RecordSplitter> splitter_;
  std::shared_ptr<FileFeed> feed_;
  FilePlace place_;
  Error error_;
  std::optional<Error> failure_;  // found when fetching bytes
  std::optional<Passing> passing_;
  bool open_started_ = false;
  bool opened_ = false;
  bool last_ = false;  // all bytes are at hand
  bool ended_ = false;
  uint64_t file_bytes_ = 0;

  ByteWindow bytes_;
  std::optional<FrameTableReader> frame_table_;  // of a zstd file that is begun in its middle
  std::optional<UnpackedFeed> unpacked_;         // of a compressed file
  uint64_t num_to_drop_ = 0;                     // unpacked bytes still to come before the start
};

}  // namespace millrace
