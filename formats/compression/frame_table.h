#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/compression/seek_point.h"

namespace millrace {

/// Where the frames of a zstd file lie, as the seek table at its end says: zstd's seekable format, version 0.1.0
/// (contrib/seekable_format/zstd_seekable_compression_format.md in its repository). The files that we write also say
/// how many records begin in each frame, under a checksum over both. An immutable value; any thread.
class FrameTable {
 public:
  struct Frame {
    uint64_t begin = 0;   ///< byte of the file
    uint64_t offset = 0;  ///< unpacked bytes before it
    uint64_t record = 0;  ///< records that begin before it; 0 where nobody knows
  };
  /// One frame of a file as its table lists it.
  struct Entry {
    uint32_t packed_bytes = 0;
    uint32_t bytes = 0;    ///< that it unpacks to
    uint32_t records = 0;  ///< that begin in it
  };

  /// How many bytes at the end of a file `parse` needs; `end` are the last ones of them, at least kFooterBytes where
  /// the file has so many. Nothing when there is no seek table. Throws `kIndex` when it cannot be one.
  [[nodiscard]] static std::optional<size_t> bytes_needed(std::string_view end, uint64_t file_bytes);
  /// The table in the last bytes of a file. Throws `kIndex` for one that is broken: its sizes must sum up to the
  /// file's, and the checksum, where there is one, be right. Memory is taken for entries that are really there.
  [[nodiscard]] static FrameTable parse(std::string_view end, uint64_t file_bytes);
  static constexpr size_t kFooterBytes = 9;

  /// Those that unpack to something, in their order.
  std::span<const Frame> frames() const { return {frames_.data(), frames_.size() - 1}; }
  /// The one that has an unpacked byte, below `num_bytes()`.
  const Frame& frame_with(uint64_t offset) const;
  /// The first one at an unpacked offset or after it, and all that follow.
  std::span<const Frame> frames_from(uint64_t offset) const;
  /// Null when none begins at this byte of the file.
  const Frame* frame_at(uint64_t begin) const;
  /// Whether a record begins in a frame, which is then the frame's first byte.
  static bool begins_a_record(const Frame& frame) { return (&frame)[1].record > frame.record; }
  /// A place to begin unpacking.
  static SeekPoint point(const Frame& frame);

  /// Where the last frame ends that unpacks to something.
  uint64_t end_of_frames() const { return frames_.back().begin; }
  /// Unpacked bytes of the whole file.
  uint64_t num_bytes() const { return frames_.back().offset; }
  /// Records of the whole file, where it says so.
  std::optional<uint64_t> num_records() const {
    return counts_records_ ? std::optional(frames_.back().record) : std::nullopt;
  }

 private:
  FrameTable() = default;

  std::vector<Frame> frames_;  // and one for where the last one ends
  bool counts_records_ = false;
};

/// What a file that we write begins with: a skippable frame that promises a seek table, so that a file cut between two
/// frames is known to be cut.
[[nodiscard]] std::string_view frame_table_promise();
/// What it ends with: the numbers of records and the seek table. `entries`: of all frames before, the promise included.
[[nodiscard]] std::string serialize_frame_table(std::span<const FrameTable::Entry> entries);

}  // namespace millrace
