#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace {

/// What `count` packed integers of `size` bytes each take at most.
constexpr size_t most_packed_bytes(size_t count, size_t size) { return 1 + count * size; }

/// Writes integers as their differences to the least of them, each in as few bytes (0, 1, 2 or 4) as the largest
/// difference needs, or as they are where that is no shorter: "frame of reference" (Goldstein, Ramakrishnan, Shaft:
/// Compressing relations and indexes, ICDE 1998). Ids of a vocabulary of 65,536 tokens take a quarter of 64 bits, and a
/// constant takes 1 + sizeof bytes however often it stands there. At most `most_packed_bytes`, in the machine's byte
/// order: not for files. Returns the number of bytes.
[[nodiscard]] size_t pack_integers(std::span<const int32_t> values, std::byte* out);
[[nodiscard]] size_t pack_integers(std::span<const int64_t> values, std::byte* out);

/// Reads what `pack_integers` wrote of as many values. Returns how many bytes that were.
size_t unpack_integers(const std::byte* in, std::span<int32_t> values);
size_t unpack_integers(const std::byte* in, std::span<int64_t> values);

}  // namespace millrace
