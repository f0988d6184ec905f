#pragma once

#include <algorithm>
#include <cstddef>

namespace millrace {

/// Bytes that the processor fetches at a time.
constexpr size_t kCacheLine = 64;
/// So much of a row is asked for at most: of longer ones the processor asks for the rest by itself.
constexpr size_t kMostAskedFor = 4096;

/// Has the caches fetch memory that will soon be read, or written (`kForWrite`). Rows that have waited lie where the
/// processor does not expect them. Any address will do.
template <bool kForWrite = false>
void prefetch_lines(const void* memory, size_t bytes) {
  const auto* lines = static_cast<const std::byte*>(memory);
  for (size_t at = 0; at < std::min(bytes, kMostAskedFor); at += kCacheLine) __builtin_prefetch(lines + at, kForWrite);
}

}  // namespace millrace
