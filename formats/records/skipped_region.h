#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "millrace/formats/error.h"

namespace millrace {

/// A part of a shard that was left out because it is damaged. The bytes are those of the file, or the unpacked ones of
/// a compressed shard.
struct SkippedRegion {
  std::string shard = {};                ///< path of the file
  uint64_t begin = 0;                    ///< first byte that gives no record
  uint64_t end = 0;                      ///< after the last one; `begin` when nothing is lost: a wrong checksum alone
  bool end_is_known = true;              ///< false: lost to the end of a compressed shard, whose size nobody knows
  uint64_t first_record = 0;             ///< index in the shard of the first record that is lost
  std::optional<uint64_t> records = {};  ///< that are lost. Default: not known
  int64_t epoch = 0;                     ///< in which run through the data
  ErrorCode code = ErrorCode::kIo;       ///< what is wrong
  std::string reason = {};               ///< the same in words

  uint64_t bytes() const { return end - begin; }
  /// One line: `train-3.tfrecord, bytes 1040 to 2401, 1 record from 17 on, epoch 0: payload_crc: expected …, found …`.
  std::string to_string() const;
};

/// What was left out so far, of a whole stream.
struct SkipCounts {
  int64_t regions = 0;
  int64_t records = 0;  ///< in regions whose number of records is known
  int64_t regions_of_unknown_records = 0;
  int64_t bytes = 0;
  uint64_t digest = 0;  ///< of all regions in their order, without the folders of shards and the words; 0: none

  void add(const SkippedRegion& region);
  /// One line: `3 regions, 3 records, 4083 bytes`.
  std::string to_string() const;
  friend bool operator==(const SkipCounts&, const SkipCounts&) = default;
};

}  // namespace millrace
