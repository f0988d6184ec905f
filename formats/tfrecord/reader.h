#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/byte_window.h"

namespace millrace {

class ShardIndex;

/// Where a record begins. In a compressed shard offsets count uncompressed bytes.
struct RecordPosition {
  uint64_t offset = 0;  ///< of the record's length field
  uint64_t record = 0;  ///< index in the shard
  friend bool operator==(const RecordPosition&, const RecordPosition&) = default;
};

/// Some records of a shard, one after the other. Reuse one object: its arrays keep their memory.
struct RecordBatch {
  std::vector<std::string_view> payloads = {};  ///< views into `buffer`
  std::vector<uint64_t> offsets = {};           ///< where each record begins (its length field)
  uint64_t first_record = 0;                    ///< index of payloads[0] in the shard
  Buffer buffer = {};                           ///< keep it as long as the payloads are read

  bool empty() const { return payloads.empty(); }
  size_t size() const { return payloads.size(); }
  void clear() {
    payloads.clear();
    offsets.clear();
    buffer = {};
  }
};

/// An error of a reader, and what it costs.
struct RecordFault {
  Error error = {};  ///< with shard, offset and record
  /// True when reading can go on: `next` goes on with the first record at or after `end`. Otherwise `next` gives the
  /// end.
  bool can_continue = false;
  /// The bytes [begin, end) hold no record that is delivered. `end` is where the next record begins, or where the shard
  /// ends. Empty when nothing is lost: a wrong checksum after good records.
  uint64_t begin = 0;
  uint64_t end = 0;
  /// False when a compressed shard is lost to its end and nobody knows how much it would have been: `end` is then only
  /// the end of the bytes that were there. Default: true
  bool end_is_known = true;
  /// Records in these bytes. Default: not known
  std::optional<uint64_t> num_records_lost = {};
};

struct RecordReaderOptions {
  /// Name in errors. Default: none.
  std::string shard = {};
  /// Where the first byte fed lies. Default: the beginning.
  RecordPosition start = {};
  /// No more bytes than these can come, counted from the beginning of the shard: the size of a plain file. Lengths are
  /// checked against it. Default: no bound.
  uint64_t max_shard_bytes = UINT64_MAX;
  /// Whether exactly max_shard_bytes will come: then memory for a whole record may be taken at once. Otherwise memory
  /// grows only as bytes really come. Default: false.
  bool size_is_exact = false;
  /// Longer records are the error `record_too_large`. Default: 1 GiB.
  uint64_t max_record_bytes = uint64_t{1} << 30;
  /// Where every record begins: reading goes on after a record whose length cannot be believed. What it says is
  /// compared with what is found. Default: not known.
  std::shared_ptr<const ShardIndex> index = {};
  /// What a whole record that differs from the index means. False: the index is of another content, which is the error
  /// `index`; the record is given and reading goes on without the index. True: the record is another one that damage
  /// brought here, as wrong references in compressed data do; it is lost. Default: false.
  bool difference_is_damage = false;
};

/// Finds the records in the bytes of a TFRecord file (uncompressed): a pure state machine without I/O. Both CRCs of
/// each record are checked, and each length against the bytes that can still come before memory is taken for it.
///
///     RecordReader reader(pool, {.shard = path, .max_shard_bytes = size, .size_is_exact = true});
///     for (RecordBatch batch;;) {
///       switch (reader.next(batch)) {
///         case RecordReader::Step::kRecords: use(batch.payloads); break;
///         case RecordReader::Step::kNeedBytes: {
///           const size_t count = read_some(reader.prepare(256 << 10));
///           count > 0 ? reader.commit(count) : reader.finish();
///           break;
///         }
///         case RecordReader::Step::kEnd: return;
///         case RecordReader::Step::kError: throw ErrorException(reader.fault().error);
///       }
///     }
///
/// Payloads are views; a record that crosses two chunks is put together by copying the part at hand once. One thread at
/// a time. A checkpoint holds `position()`.
class RecordReader {
 public:
  enum class Step {
    kRecords,    ///< the batch holds at least one record
    kNeedBytes,  ///< `prepare` and `commit`, or `feed`, or `finish`
    kEnd,        ///< the shard ended after a whole record, or `fault()` cannot be passed
    kError,      ///< see `fault()`; the batch is empty
  };

  explicit RecordReader(BufferPool& pool, RecordReaderOptions options = {});

  /// The next records, at most `max_records`, all from one buffer. Records before an error come first.
  Step next(RecordBatch& batch, size_t max_records = SIZE_MAX);
  /// The last error. Valid after kError.
  const RecordFault& fault() const { return fault_; }
  /// The record that `next` gives next.
  RecordPosition position() const { return position_; }
  /// Goes on with a later record, also after a fault that cannot be passed: the bytes before it are dropped, those that
  /// are still to come too. `next.offset` must not be below `position().offset`.
  void skip_to(RecordPosition next);
  /// What is fed from now on begins at `offset`, wherever what was fed before ended; the next record is `next`, at
  /// `offset` or after it.
  void restart(uint64_t offset, RecordPosition next);
  /// Bytes that were dropped in front of records that were skipped to, in all.
  uint64_t num_skipped() const { return num_skipped_; }

  /// Memory for the bytes that follow: about `wanted`, or more where a long record needs more, never more than can
  /// come. With `whole_records` less by up to a record, so that records of one length are not cut, since a cut one is
  /// copied; without, all that is wanted, where each read takes long to begin. Write to its beginning, then say how
  /// much with `commit`. Only after kNeedBytes (or while `num_missing` is not 0).
  [[nodiscard]] std::span<std::byte> prepare(size_t wanted, bool whole_records = true);
  void commit(size_t bytes);
  /// The bytes that follow are [begin, end) of `chunk`, which was filled elsewhere. With `begin` >= kChunkHeadroom
  /// (file_feed.h) they are rarely copied; the reader writes to the memory before `begin`, so the chunk must have no
  /// other reader.
  void feed(Buffer chunk, size_t begin, size_t end);
  /// No bytes follow.
  void finish() { finished_ = true; }

  /// Bytes that are certainly missing for the record that is being read; 0 while more records are at hand. When it is
  /// not 0, `prepare` may be called before `next` says kNeedBytes.
  uint64_t num_missing() const { return num_missing_; }
  /// Whether so many bytes have their place already: of those that are missing `prepare` then takes no memory.
  bool has_room_for(uint64_t bytes) const { return bytes <= bytes_.room().size(); }
  /// Whether more is at hand than goes in front of a chunk: `feed` copies chunks to a place for the whole record.
  bool copies_chunks() const;
  /// What `feed` then takes memory for, of a chunk of so many bytes: these, and all that is missing of a record that is
  /// longer, so that the chunk with its end has room too. Never more than can come.
  uint64_t room_for_chunk(size_t bytes) const;
  /// Lets go of the memory that the last records are in, where little else is there: for who has copied them. Not while
  /// somebody writes to what `prepare` gave.
  void leave_buffer() { bytes_.leave_buffer(); }
  /// The memory that `prepare` gave a part of: keep a reference while somebody else writes to it.
  const Buffer& buffer() const { return bytes_.buffer(); }
  /// Bytes at hand that `next` has not delivered.
  size_t num_available() const { return bytes_.size(); }
  /// Offset of the byte that `commit` or `feed` brings next.
  uint64_t next_byte() const { return position_.offset + num_available() - num_to_skip_; }

 private:
  void walk(RecordBatch& batch, size_t max_records);
  void checksum_long_record();
  void examine_next();
  void end();
  void set_fault(ErrorCode code, std::string message);
  void set_fault(Error error);
  void lose(uint64_t end, uint64_t num_records);
  bool lose_by_index();
  void lose_from_length();
  void lose_rest(uint64_t end);
  void refuse_index(std::string message);
  bool is_indexed(uint64_t record, uint64_t end, uint32_t payload_crc) const;
  std::string difference_from_index(uint64_t record, uint64_t end, uint32_t payload_crc) const;
  std::string describe_bytes_left(uint64_t left) const;
  uint64_t can_come() const;
  void make_room(size_t wanted);
  size_t up_to_a_header(size_t wanted) const;
  void drop_skipped();

  const RecordReaderOptions options_;
  std::shared_ptr<const ShardIndex> index_;  // until something differs from it
  RecordPosition position_;
  ByteWindow bytes_;
  uint64_t num_to_skip_ = 0;  // bytes still to come before position_; then none are at hand
  uint64_t num_skipped_ = 0;
  uint64_t num_missing_ = 1;
  // Of a long record at `position_`: the bytes of its payload whose CRC is known. They were in the cache when they
  // came.
  uint64_t num_checksummed_ = 0;
  uint32_t checksum_ = 0;
  uint64_t expected_frame_ = 0;  // bytes of the record at `position_`, or of the one before; 0: not known
  bool finished_ = false;
  bool ended_ = false;
  bool has_fault_ = false;  // fault_ is still to be reported
  RecordFault fault_;
};

}  // namespace millrace
