#pragma once

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
#include "millrace/formats/storage/file_feed.h"
#include "millrace/formats/storage/range_reader.h"
#include "millrace/formats/storage/storage.h"
#include "millrace/formats/tfrecord/reader.h"
#include "millrace/formats/tfrecord/resync.h"

namespace millrace {

struct ShardReaderOptions {
  /// How the shard is stored. A file whose content says otherwise is an error. Default: as its first bytes say.
  std::optional<Compression> compression;
  /// The record to begin with. In a compressed shard everything before it is unpacked and dropped: from the last place
  /// that `index` knows or, in a zstd shard, the seek table at its end; else from the beginning. Default: the first.
  RecordPosition start;
  /// Whether the shard is damaged between the seek point before `start` and `start`: then what is unpacked is trusted
  /// from the next seek point on only, as by a reader that came past the damage. Needs `index`. Default: false.
  bool starts_after_damage = false;
  /// The number of records in the whole shard: another number is the error `cardinality`. Default: not known.
  std::optional<uint64_t> num_records;
  /// Where the records are, see index.h: with it `start` in a compressed shard unpacks at most 1 MiB before the record,
  /// and damage costs no more than the records up to the next place that it knows. One of another file name or size is
  /// the error `index`, and so is in a plain shard one that says something else than a whole record; nothing is lost to
  /// it, and reading goes on without it. In a compressed shard such a record is lost: wrong references bring whole
  /// records to other places. Default: none.
  std::shared_ptr<const ShardIndex> index;
  /// Longer records are the error `record_too_large`. Default: 1 GiB.
  uint64_t max_record_bytes = uint64_t{1} << 30;
  /// Bytes asked from the storage at a time; a longer record is read in one piece. Of a plain shard, where it answers
  /// at once, no more than `most_warm_chunk_bytes` after the first read. Default: 256 KiB.
  size_t chunk_bytes = 256 << 10;
  /// Chunks that are read ahead while one is walked, when the storage does not answer at once. Default: 2.
  size_t read_ahead = 2;
  /// What chunks may come to of a file that advises several reads in flight (`File::advice`). Default: 0, as many of
  /// `chunk_bytes` as are read ahead of another.
  size_t most_bytes_ahead = 0;
  /// Files that are read at a time, this one included: they share the reads that such a storage has in flight.
  /// Default: 1.
  size_t num_files = 1;
  /// Is asked before memory for a record longer than a chunk is taken. Default: nobody.
  MemoryGate* memory = nullptr;
  /// How often a retriable error is tried, see range_reader.h. Default: 5.
  int max_attempts = kDefaultMaxAttempts;
};

/// Reads the records of one TFRecord shard from a storage without ever blocking: file, decompression and frames tied
/// together.
///
///     ShardReader reader(storage, pool, "train-0.tfrecord", {}, [&] { node.wake(); });
///     RecordBatch batch;
///     switch (reader.next(batch)) {
///       case ShardReader::Step::kRecords: ...   // batch.payloads
///       case ShardReader::Step::kPending: ...   // wake is called when asking again makes sense
///       case ShardReader::Step::kError: ...     // reader.fault()
///       case ShardReader::Step::kEnd: ...
///     }
///
/// Of a zstd shard the seek table at its end is read first, so that damage costs no more than the records up to the
/// next frame that begins one. A table that is broken is the error `index`; nothing is lost to it.
///
/// Nothing is read before the first `next`. What the page cache holds is read inside `next`; otherwise the chunks that
/// follow are read while the caller works on a batch. `next` is called by one thread at a time; `wake` comes from any
/// thread, only after kPending, and must not destroy the reader. The reader may be destroyed at any moment between two
/// calls: reads in flight end by themselves, and `wake` is not called any more. `storage` must outlive the reader and
/// its reads in flight. A checkpoint holds `position()` and `compression()`.
class ShardReader {
 public:
  enum class Step {
    kRecords,  ///< the batch holds at least one record
    kEnd,      ///< no more records, or after an error that cannot be passed
    kPending,  ///< not now: `wake` will be called
    kError,    ///< see `fault()`; when it `can_continue`, the next record is next
  };

  ShardReader(Storage& storage, BufferPool& pool, std::string path, ShardReaderOptions options,
              std::function<void()> wake);
  ~ShardReader();
  ShardReader(const ShardReader&) = delete;
  ShardReader& operator=(const ShardReader&) = delete;

  /// The next records, at most `max_records`. Records before an error come first.
  Step next(RecordBatch& batch, size_t max_records = SIZE_MAX);
  /// Lets go of the memory of the last records as soon as the batch does, for who has copied them: the next reader that
  /// needs such memory finds it in the core's cache. Not where more than a sixteenth of it is still to be given, nor
  /// while a long record is read into it.
  void leave_buffer();
  /// The last error. Valid after kError.
  const RecordFault& fault() const { return fault_; }
  /// The record that `next` gives next.
  RecordPosition position() const { return records_ ? records_->position() : options_.start; }

  const std::string& path() const { return path_; }
  /// How the shard is stored. Known after the first records.
  std::optional<Compression> compression() const { return compression_; }
  /// Unpacked or plain bytes that were dropped on the way to the first record and to those after damage.
  uint64_t num_skipped_bytes() const { return records_ ? records_->num_skipped() : 0; }
  /// Bytes that came from the storage so far, some of them twice where reading went on after damage.
  uint64_t num_file_bytes_read() const;
  /// Bytes of the file and its version (see File). Known after the first records or a clean end.
  uint64_t file_bytes() const { return file_bytes_; }
  const std::string& file_version() const { return file_version_; }

 private:
  using Got = FileFeed::Got;

  Step refuse_index(std::string message);
  Step failed();
  Step fail(Error error, uint64_t end);
  bool resync(uint64_t from);
  bool enter(const Resync::Place& place);
  Step end();
  std::optional<std::string> index_difference() const;
  Got open();
  Got begin();
  Got first_chunk();
  Got read_frame_table();
  void take_frame_table(const FrameTableReader& reader);
  void choose_entry();
  Got fetch();
  Got fetch_plain();
  Got fetch_unpacked();
  void plan();
  template <typename Take>
  bool take_memory(uint64_t needed, uint64_t taken, bool ahead, const Take& take);
  std::optional<std::span<std::byte>> prepare(size_t wanted, bool ahead = false);
  bool take_chunk();

  Storage& storage_;
  BufferPool& pool_;
  const std::string path_;
  const ShardReaderOptions options_;
  KnownPlaces known_;  // the index until something differs from it
  std::optional<std::string> index_problem_;
  std::shared_ptr<FileFeed> feed_;

  std::optional<Compression> compression_;
  uint64_t file_bytes_ = 0;
  std::string file_version_;
  bool open_started_ = false;
  bool opened_ = false;
  bool ended_ = false;
  bool lost_the_rest_ = false;  // an error could not be passed: the number of records means nothing
  std::optional<RecordReader> records_;
  std::optional<UnpackedFeed> unpacked_;  // of a compressed shard
  std::optional<Error> failure_;    // found when fetching bytes; returned when the records before it are delivered
  bool failure_is_damage_ = false;  // of the content, not of the storage
  RecordFault fault_;

  // While it is not known how the shard is stored and where to begin.
  std::optional<FileFeed::Chunk> first_;
  std::optional<FrameTableReader> frame_table_reader_;
  bool frame_table_was_read_ = false;

  // Compressed shards.
  std::optional<SeekPoint> entry_;  // to begin with
  std::optional<Resync> resync_;    // once there are `records_`
};

}  // namespace millrace
