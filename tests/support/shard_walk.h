#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "millrace/formats/compression/compression.h"
#include "millrace/formats/error.h"
#include "tests/support/shard_driver.h"

namespace millrace::test {

/// What any reader must find in the bytes of a TFRecord file. Written against the format alone: of the library only the
/// names of errors and compressions are used, of compressed bytes zlib says what is in them.
struct ShardWalk {
  /// The records whose CRCs are right and whose places are known, also those after records with damaged payloads.
  std::vector<ReadRecord> records;
  size_t num_before = 0;      ///< of `records`, those before the first fault
  std::set<ErrorCode> codes;  ///< of which the first fault has one. Empty: there is none, or nobody can see it
  uint64_t fault_offset = 0;  ///< where the record of the first fault begins, in unpacked bytes
  /// False: the compressed data breaks, and what can be read after that is the reader's business.
  bool is_unpacked = true;

  bool has_fault() const { return !codes.empty(); }
};

/// Walks `file`, which is declared to be stored as none, zlib or gzip.
[[nodiscard]] ShardWalk walk_shard(std::string_view file, Compression declared);

/// CRC32C of `bytes`, a bit at a time.
[[nodiscard]] uint32_t plain_crc32c(std::string_view bytes);

}  // namespace millrace::test
