#include "millrace/formats/tfrecord/warm_chunk.h"

#include <algorithm>

#include <unistd.h>

namespace millrace {
namespace {

constexpr size_t kLeastWarmBytes = 128 << 10;
constexpr size_t kMostWarmBytes = 256 << 10;
constexpr uint64_t kFewRecords = 16;

}  // namespace

size_t most_warm_chunk_bytes(uint64_t record_bytes) {
  static const size_t bytes = [] {
    const long cache = ::sysconf(_SC_LEVEL2_CACHE_SIZE);  // 0 or -1 where the system does not know
    return std::clamp(cache > 0 ? static_cast<size_t>(cache) / 4 : 0, kLeastWarmBytes, kMostWarmBytes);
  }();
  return record_bytes > bytes / kFewRecords ? kMostWarmBytes : bytes;
}

}  // namespace millrace
