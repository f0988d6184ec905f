#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/compression/compression.h"
#include "formats/compression/seek_point.h"
#include "formats/tfrecord/reader.h"

namespace millrace {

class Storage;

/// What tells the content of a shard from another one's without reading it all.
struct ShardDigest {
  std::string name;    ///< of the file, without folders
  uint64_t bytes = 0;  ///< of the file
  uint64_t first = 0;  ///< XXH3 (64 bits) of its first 4 KiB
  uint64_t last = 0;   ///< XXH3 (64 bits) of its last 4 KiB
  friend bool operator==(const ShardDigest&, const ShardDigest&) = default;
};

/// Bytes at either end of a shard that its digest covers.
constexpr uint64_t kDigestBytes = 4 << 10;

/// The digest of a file at `path` with `bytes` bytes, of which `first` and `last` are the ends.
[[nodiscard]] ShardDigest shard_digest(std::string_view path, uint64_t bytes, std::string_view first,
                                       std::string_view last);
/// Reads both ends of the file; waits for the storage. Throws its errors.
[[nodiscard]] ShardDigest read_shard_digest(Storage& storage, const std::string& path);

/// What differs between the shard that an index was made of and the one that was found, in words; nothing when all is
/// equal.
[[nodiscard]] std::optional<std::string> difference(const ShardDigest& indexed, const ShardDigest& found);

/// Where every record of a shard begins, checks of their payloads, and for a compressed shard the places from which it
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
  /// A number for every so many records: see `checks`.
  static constexpr uint64_t kRecordsPerCheck = 1024;
  /// In a compressed shard at most so many bytes are unpacked in front of a record that is to be reached.
  static constexpr uint64_t kMostUnpackedBefore = 1 << 20;

  struct Parts {
    ShardDigest digest;
    Compression compression = Compression::kNone;
    /// Of each record, and where the last one ends: ascending by at least 16, from 0.
    std::vector<uint64_t> offsets = {0};
    std::vector<uint32_t> checks;   ///< see `checks`
    std::vector<SeekPoint> points;  ///< ascending; none for a plain shard
  };
  explicit ShardIndex(Parts parts) : parts_(std::move(parts)) {}

  /// The index in the bytes of its file. Throws `kIndex` for bytes that are none, whatever they are: every length in
  /// them is checked before memory is taken.
  [[nodiscard]] static ShardIndex parse(std::string_view bytes);
  [[nodiscard]] std::string serialize() const;

  const ShardDigest& digest() const { return parts_.digest; }
  Compression compression() const { return parts_.compression; }
  uint64_t num_records() const { return parts_.offsets.size() - 1; }
  /// Where record `record` begins; for `num_records()` where the last one ends. In a compressed shard offsets count
  /// unpacked bytes.
  uint64_t offset(uint64_t record) const { return parts_.offsets[record]; }
  /// Unpacked bytes of the whole shard.
  uint64_t num_bytes() const { return parts_.offsets.back(); }
  /// The first record that begins at `offset` or behind it: `num_records()` when none does.
  RecordPosition first_from(uint64_t offset) const;
  /// For each run of 1,024 records, the last one may be shorter: the CRC32C of their payloads' masked CRC32Cs as they
  /// stand in the shard, 4 bytes each.
  std::span<const uint32_t> checks() const { return parts_.checks; }
  std::span<const SeekPoint> points() const { return parts_.points; }
  /// The last point at or before an unpacked byte; null when there is none but the beginning of the file.
  const SeekPoint* point_before(uint64_t offset) const;
  /// The first point behind an unpacked byte; null when there is none.
  const SeekPoint* point_behind(uint64_t offset) const;

  friend bool operator==(const ShardIndex& a, const ShardIndex& b);

 private:
  Parts parts_;
};

/// The file that holds the index of a shard: `SHARD.index`.
[[nodiscard]] std::string index_path(std::string_view shard);

/// Reads and parses the index of `shard` and compares it with the shard's digest; waits for the storage. Null when
/// there is no such file. Throws `kIndex`, naming what differs, for one that is broken or of another content; and the
/// storage's errors.
[[nodiscard]] std::shared_ptr<const ShardIndex> load_shard_index(Storage& storage, const std::string& shard);

/// Lets the parser run over any bytes: it refuses them or gives an index that it writes again as it was. The entry
/// point for fuzzers, and a unit test.
void fuzz_shard_index(std::string_view bytes);

}  // namespace millrace
