#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "millrace/formats/compression/compression.h"
#include "millrace/formats/storage/storage.h"
#include "millrace/formats/tfrecord/reader.h"

namespace millrace {

struct VerificationOptions {
  std::optional<Compression> compression;         ///< Default: as the first bytes say
  std::optional<uint64_t> num_records;            ///< that it is said to have. Default: not known
  uint64_t max_record_bytes = uint64_t{1} << 30;  ///< Default: 1 GiB
  bool use_index = true;                          ///< look for the index and read with it. Default: true
  std::function<void(uint64_t)> on_progress;      ///< called with the bytes of the file that are done. Default: none
};

/// What a shard was found to be.
struct ShardVerification {
  std::string path;
  uint64_t records = 0;  ///< whose two CRCs are right
  uint64_t bytes = 0;    ///< of these with their frames, unpacked
  uint64_t file_bytes = 0;
  std::optional<Compression> compression;  ///< nothing when it is not known
  bool has_index = false;
  /// What is wrong with the index: broken, or of another content. Nothing when it matches or there is none.
  std::optional<Error> index_problem;
  std::vector<RecordFault> damage;  ///< in the order of the shard

  bool good() const { return damage.empty() && !index_problem; }
};

/// Reads a whole shard with both CRCs of every record and the trailers of compressed streams, and compares it with its
/// index where it has one. Goes on after damage as far as it can. Throws nothing: where memory ends, the rest of the
/// shard is damage of the code `kOutOfMemory`. Any thread.
[[nodiscard]] ShardVerification verify_shard(Storage& storage, const std::string& path,
                                             const VerificationOptions& options = {});

}  // namespace millrace
