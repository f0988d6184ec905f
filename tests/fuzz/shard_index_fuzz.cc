#include "tests/fuzz/shard_index_fuzz.h"

#include <cstdint>
#include <optional>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/formats/compression/seek_point.h"
#include "millrace/formats/error.h"
#include "millrace/formats/tfrecord/index/index.h"
#include "tests/fuzz/fuzz_error.h"

namespace millrace::test {

std::string index_with_checksum(std::string_view body) {
  using std::string_view_literals::operator""sv;
  std::string bytes("MLRINDEX\1\0\0\0"sv);  // and the version
  bytes += body;
  const uint64_t digest = XXH3_64bits(bytes.data(), bytes.size());
  bytes.append(reinterpret_cast<const char*>(&digest), sizeof digest);
  return bytes;
}

void fuzz_shard_index(std::string_view bytes) {
  const auto parse = [](std::string_view some) -> std::optional<ShardIndex> {
    try {
      return ShardIndex::parse(some);
    } catch (const ErrorException& exception) {
      require(exception.error().code == ErrorCode::kIndex);
      return std::nullopt;
    }
  };
  const std::string with_checksum = index_with_checksum(bytes);
  for (const std::string_view some : {bytes, std::string_view(with_checksum)}) {
    const std::optional<ShardIndex> index = parse(some);
    if (!index) continue;
    require(index->serialize() == some);
    ShardIndex::check_beginning(some, some.size());  // what it refuses is none
    for (const SeekPoint& point : index->points()) {
      require(index->point_before(point.offset) == &point && index->point_after(point.offset - 1) == &point);
      try {
        require(unpack_window(point).size() == point.window_bytes);
      } catch (const ErrorException& exception) {
        require(exception.error().code == ErrorCode::kIndex);
      }
    }
    for (uint64_t record = 0; record <= index->num_records(); ++record) {
      require(index->first_from(index->offset(record)).record == record);
    }
  }
}

}  // namespace millrace::test
