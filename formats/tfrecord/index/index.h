#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/compression/compression.h"
#include "millrace/formats/compression/seek_point.h"
#include "millrace/formats/tfrecord/index/shard_fingerprint.h"
#include "millrace/formats/tfrecord/reader.h"

namespace millrace {

class Storage;

/// Where every record of a shard begins, a tag of its payload, and for a compressed shard the places from which it
/// can be unpacked: what makes any record reachable, and what limits the loss where bytes are damaged. An immutable
/// value, kept in the file `SHARD.index` beside the shard (docs/damaged_data.md has the format). In memory it takes 8
/// bytes a record, and for a compressed shard what its seek points take in the file.
///
///     ShardIndex index = build_shard_index(storage, "train-0.tfrecord");
///     write_atomically(index_path("train-0.tfrecord"), index.serialize());
///     ShardReader reader(storage, pool, path, {.index = load_shard_index(storage, path)}, wake);
///
/// Any thread.
class ShardIndex {
 public:
  /// The most bytes of a compressed shard that are unpacked before a record that is to be reached.
  static constexpr uint64_t kMostUnpackedBefore = 1 << 20;
  /// So its seek points lie at this distance, which is less by what points may lie after where they are wanted.
  static constexpr uint64_t kPointDistance = kMostUnpackedBefore - (64 << 10) - 512;

  struct Parts {
    ShardFingerprint fingerprint = {};
    Compression compression = Compression::kNone;
    /// One for each record, and one for where the last one ends: see `entry`.
    std::vector<uint64_t> entries = {0};
    /// Ascending; none for a plain shard. Of a zstd shard where its frames begin, but for the first one, and, when it
    /// has a seek table, where the last one ends.
    std::vector<SeekPoint> points = {};
  };
  /// No file is longer: it would be of a shard of over a hundred million records.
  static constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  /// What `check_beginning` looks at.
  static constexpr uint64_t kBeginningBytes = 88;
  explicit ShardIndex(Parts parts) : parts_(std::move(parts)) {}
  /// The offset of a record's length field (48 bits), and above it the record's tag (16 bits).
  static constexpr uint64_t entry(uint64_t offset, uint16_t tag) { return offset | uint64_t{tag} << kOffsetBits; }
  static constexpr int kOffsetBits = 48;

  /// The index in the bytes of its file. Throws `kIndex` for bytes that are none, whatever they are: every length in
  /// them is checked before memory is taken.
  [[nodiscard]] static ShardIndex parse(std::string_view bytes);
  /// Throws `kIndex` where the first bytes of a file of `size` bytes say that it is none, so that no memory is taken
  /// for the rest.
  static void check_beginning(std::string_view bytes, uint64_t size);
  [[nodiscard]] std::string serialize() const;

  const ShardFingerprint& fingerprint() const { return parts_.fingerprint; }
  Compression compression() const { return parts_.compression; }
  uint64_t num_records() const { return parts_.entries.size() - 1; }
  /// Where record `record` begins; for `num_records()` where the last one ends. In a compressed shard offsets count
  /// unpacked bytes.
  uint64_t offset(uint64_t record) const { return offset_in(parts_.entries[record]); }
  /// The lower half of the masked CRC32C of a record's payload, as it stands after it in the shard: what tells records
  /// of equal length apart.
  uint16_t tag(uint64_t record) const { return static_cast<uint16_t>(parts_.entries[record] >> kOffsetBits); }
  /// Unpacked bytes of the whole shard.
  uint64_t num_bytes() const { return offset(num_records()); }
  /// The first record that begins at `offset` or after it: `num_records()` when none does.
  RecordPosition first_from(uint64_t offset) const;
  std::span<const SeekPoint> points() const { return parts_.points; }
  /// The last point at or before an unpacked byte; null when there is none but the beginning of the file.
  const SeekPoint* point_before(uint64_t offset) const;
  /// The first point after an unpacked byte; null when there is none.
  const SeekPoint* point_after(uint64_t offset) const;

  /// Bytes [begin, end) of a zstd shard that unpack to [offset, end_offset).
  struct Frame {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t offset = 0;
    uint64_t end_offset = 0;
  };
  /// Whether it is a zstd shard with records and with a seek table, whose frames are known.
  bool has_frames() const;
  /// Only when it has frames, as the next two.
  size_t num_frames() const { return parts_.points.size(); }
  Frame frame(size_t number) const;
  /// The number of the frame with an unpacked byte below `num_bytes()`.
  size_t frame_with(uint64_t offset) const;

  friend bool operator==(const ShardIndex& a, const ShardIndex& b);

 private:
  static constexpr uint64_t offset_in(uint64_t entry) { return entry & ((uint64_t{1} << kOffsetBits) - 1); }

  Parts parts_;
};

/// The file that holds the index of a shard: `SHARD.index`.
[[nodiscard]] std::string index_path(std::string_view shard);

/// Whether one may lie there: not beside a URL of http or https with a query, which, often a signature, is of the shard
/// alone.
[[nodiscard]] bool may_have_index(std::string_view shard);

/// Reads and parses the index of `shard`; waits for the storage. Null when there is no such file. Throws `kIndex` for
/// one that is broken, and the storage's errors. It may be of another content: a ShardReader compares the file's name
/// and size, and each record that it comes to.
[[nodiscard]] std::shared_ptr<const ShardIndex> read_shard_index(Storage& storage, const std::string& shard);

/// The same, and compares it with the shard's fingerprint: throws `kIndex`, naming what differs, for an index of
/// another content, which one of a shard that was damaged in its first or last 4 KiB seems to be.
[[nodiscard]] std::shared_ptr<const ShardIndex> load_shard_index(Storage& storage, const std::string& shard);

}  // namespace millrace
