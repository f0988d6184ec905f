#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "millrace/formats/columnar/memory_gate.h"
#include "millrace/formats/compression/zstd_unpacker.h"
#include "millrace/formats/storage/file_pool.h"
#include "millrace/formats/tfrecord/index/piece_read.h"
#include "millrace/formats/tfrecord/index/shard_indexes.h"

namespace millrace {

struct RecordFetcherOptions {
  /// Two records of one shard that have no more bytes than these between them are read in one piece. Default: 8 KiB.
  uint64_t merge_gap = 8 << 10;
  /// Pieces are no longer than this, nor than what may be held, but for a record that is. Default: 256 KiB.
  uint64_t most_bytes_a_read = 256 << 10;
  /// Reads in flight at a time, and files held for them; at least 1. Default: 16.
  size_t reads_in_flight = 16;
  /// Of records that are held at a time, at least one; twice as many with what is read for them. Default: 32 MiB.
  uint64_t most_bytes_held = 32 << 20;
  /// What is taken beside that to read a frame of a zstd shard and to unpack it. Default: 0, shards are plain.
  uint64_t frame_bytes = 0;
  /// Longer records are the error `record_too_large`. Default: 1 GiB.
  uint64_t max_record_bytes = uint64_t{1} << 30;
  /// Records and bytes of one batch. Defaults: 1,024 and 256 KiB.
  size_t batch_records = 1024;
  uint64_t batch_bytes = 256 << 10;
  /// Is asked before memory for records is taken. Default: nobody.
  MemoryGate* memory = nullptr;
};

/// Some records, in the order in which they were asked for. Reuse one object.
struct FetchedRecords {
  struct Place {
    uint32_t shard = 0;
    uint64_t offset = 0;  ///< of the record's length field
    uint64_t bytes = 0;   ///< with its frame
    uint64_t record = 0;  ///< index in the shard
  };
  struct Fault {
    size_t index = 0;  ///< of the record in the batch
    Error error;       ///< with shard, offset and record
  };
  std::vector<std::string_view> payloads;  ///< views into `buffer`; empty where there is a fault
  std::vector<Place> places;
  std::vector<Fault> faults;  ///< ascending
  Buffer buffer;              ///< keep it as long as the payloads are read; null when all are faults
};

/// Reads single records of shards, in any order, at their places in the indexes, without ever blocking. What is asked
/// for together is read in the order of shards and offsets, with neighbours in one piece and several reads in flight,
/// and given in the order that was asked for. Both CRCs of every record are checked, and its length and tag against the
/// index. Shards are plain, or of zstd with a seek table (ShardIndex::has_frames): of these the frames are read that
/// have the records, and each is unpacked once for all of them.
///
///     RecordFetcher fetcher(storage, pool, indexes, files, {}, [&] { node.wake(); });
///     fetcher.start({7, 120034, 512});                    // numbers of records through all shards
///     switch (fetcher.next(records)) { … }
///
/// A record that is not whole is a fault in its place: `length_crc`, `payload_crc`, `compression` for those of a frame
/// that does not unpack, `record_too_large`, `truncated` for
/// a file that was cut after it was opened, `index` for bytes that are good but not those of the index, `io` when the
/// storage fails. The rules of `next`, `wake` and destruction are those of ShardReader.
class RecordFetcher {
 public:
  enum class Step {
    kRecords,  ///< the batch holds at least one record
    kPending,  ///< not now: `wake` will be called
    kEnd,      ///< all records were given: `start` may be called
  };

  /// Memory beside buffers for each record that is asked for together with others, about.
  static constexpr uint64_t kBytesOfPlace = 100;

  /// `files` has a number for each shard.
  RecordFetcher(Storage& storage, BufferPool& pool, std::shared_ptr<const ShardIndexes> indexes,
                std::shared_ptr<FilePool> files, const RecordFetcherOptions& options, std::function<void()> wake);
  ~RecordFetcher();
  RecordFetcher(const RecordFetcher&) = delete;
  RecordFetcher& operator=(const RecordFetcher&) = delete;

  /// Only at the beginning and after kEnd; at most 2^24 records.
  void start(std::span<const uint64_t> records);
  Step next(FetchedRecords& out);

  /// Reads that were started, and bytes that they asked for.
  uint64_t num_reads() const { return num_reads_; }
  uint64_t num_bytes_read() const { return num_bytes_read_; }

 private:
  // What was asked for, in that order.
  struct Wanted {
    FetchedRecords::Place place;
    std::byte* to = nullptr;  // where its frame goes; null: it is a fault without being read
  };
  // The pieces of one shard: some of `sorted_` each, one after the other.
  struct Line {
    uint32_t shard = 0;
    std::vector<RecordPiece> pieces;
    size_t next = 0;
  };
  // A file that is idle, of the shard of a line.
  struct Idle {
    size_t line = 0;
    std::shared_ptr<RangeReader> file;
  };
  // Of the records that are held, those of one batch.
  struct Batch {
    size_t first = 0;
    size_t count = 0;
    Buffer buffer;
  };

  bool take_part();
  void cut_batches();
  void add_pieces();
  bool read();
  bool start_read();
  void finish_reads(std::vector<std::shared_ptr<PieceRead>>& done);
  void finish_read(const std::shared_ptr<PieceRead>& read);
  void unpack(const PieceRead& read);
  RecordPiece piece_of(size_t line, size_t first) const;
  void add_piece(RecordPiece piece);
  void check(size_t wanted, const std::byte* frame);
  void fail(size_t wanted, Error error);
  void reading_ends();
  Buffer buffer_of(size_t wanted) const;

  Storage& storage_;
  BufferPool& pool_;
  const std::shared_ptr<const ShardIndexes> indexes_;
  const std::shared_ptr<FilePool> files_;
  const RecordFetcherOptions options_;
  const std::shared_ptr<PieceInbox> inbox_;

  std::vector<Wanted> wanted_;
  std::vector<uint32_t> by_place_;  // all of `wanted_`, by shard and offset
  size_t part_begin_ = 0;           // of `wanted_`: what is held
  size_t part_end_ = 0;
  std::vector<uint32_t> sorted_;  // those of the part
  std::vector<Batch> batches_;
  size_t next_batch_ = 0;
  std::vector<Line> lines_;
  size_t next_line_ = 0;    // where another file is put to work
  size_t pieces_left_ = 0;  // that no read was started for
  std::vector<Idle> idle_;
  std::vector<std::shared_ptr<PieceRead>> in_flight_;
  uint64_t bytes_in_flight_ = 0;  // in buffers of pieces
  ZstdFrameUnpacker unpacker_;
  Buffer unpacked_;  // a frame of which not all is wanted
  int64_t admitted_for_frames_ = 0;
  std::map<size_t, Error> faults_;
  uint64_t num_reads_ = 0;
  uint64_t num_bytes_read_ = 0;
};

}  // namespace millrace
