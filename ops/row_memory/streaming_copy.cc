// Compiled once for each instruction set that Highway knows here; see HWY_EXPORT at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "millrace/ops/row_memory/streaming_copy.cc"
#include "millrace/ops/row_memory/streaming_copy.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "millrace/formats/columnar/prefetch_lines.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE void StreamLine(const char* from, std::byte* to) {
  const hn::CappedTag<uint8_t, kCacheLine> d;
  for (size_t at = 0; at < kCacheLine; at += hn::Lanes(d)) {
    hn::Stream(hn::LoadU(d, reinterpret_cast<const uint8_t*>(from) + at), d, reinterpret_cast<uint8_t*>(to) + at);
  }
}

void StreamRow(std::byte* to, uint64_t header, std::string_view row) {
  assert(reinterpret_cast<uintptr_t>(to) % kCacheLine == 0);
  alignas(kCacheLine) std::array<char, kCacheLine> line;
  std::memcpy(line.data(), &header, sizeof header);
  const size_t first = std::min(row.size(), kCacheLine - sizeof header);
  if (first > 0) std::memcpy(line.data() + sizeof header, row.data(), first);
  StreamLine(line.data(), to);
  row.remove_prefix(first);
  to += kCacheLine;
  while (row.size() >= kCacheLine) {
    StreamLine(row.data(), to);
    to += kCacheLine;
    row.remove_prefix(kCacheLine);
  }
  if (row.empty()) return;
  std::memcpy(line.data(), row.data(), row.size());
  StreamLine(line.data(), to);
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace {

HWY_EXPORT(StreamRow);

void stream_row(std::byte* to, uint64_t header, std::string_view row) {
  HWY_DYNAMIC_DISPATCH(StreamRow)(to, header, row);
}

void fence_streamed_rows() { hwy::FlushStream(); }

}  // namespace millrace
#endif  // HWY_ONCE
