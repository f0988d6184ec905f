#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

/// Bytes of an object that are one file of a disk cache, but for its last ones.
constexpr uint64_t kCacheBlockBytes = 8 << 20;
/// Bytes of a block that have a CRC of their own.
constexpr size_t kCachePieceBytes = 64 << 10;

/// Pieces of so many bytes of a block; also the first piece that begins at or after them.
[[nodiscard]] constexpr size_t num_pieces(uint64_t bytes) {
  return static_cast<size_t>((bytes + kCachePieceBytes - 1) / kCachePieceBytes);
}
/// Where a piece of a block of `length` bytes begins and ends.
[[nodiscard]] constexpr std::pair<size_t, size_t> piece_range(size_t piece, uint64_t length) {
  const size_t from = piece * kCachePieceBytes;
  return {from, static_cast<size_t>(std::min<uint64_t>(from + kCachePieceBytes, length))};
}

/// One version of an object, as a disk cache has it: a folder with a file for each block.
///
/// The file of a block, `FOLDER/HH/HASH/00000012`, has the block's bytes from its beginning on, so that they are read
/// as they are. Then come the CRC-32C of each of its pieces, the hash, the block's number and length, the CRC-32C of
/// all of these, and a mark; numbers are little-endian. A block is used only if all of it fits.
struct CacheObject {
  std::string folder = {};  ///< of its blocks
  std::string hash = {};    ///< 32 hexadecimal digits, of its identity, version and size
  uint64_t size = 0;        ///< bytes
  std::string about = {};   ///< `object.json`, for people

  /// `cache`: its folder. `identity`: the object's name with the store's. `version`: `File::version`. `url`: for
  /// people.
  [[nodiscard]] static CacheObject of(const std::string& cache, const std::string& identity, const std::string& version,
                                      uint64_t size, const std::string& url);
  [[nodiscard]] uint64_t num_blocks() const { return (size + kCacheBlockBytes - 1) / kCacheBlockBytes; }
  [[nodiscard]] uint64_t length(uint64_t block) const;     ///< bytes of the object
  [[nodiscard]] uint64_t file_size(uint64_t block) const;  ///< with what comes after them
  [[nodiscard]] std::string path(uint64_t block) const;

  /// What comes after the bytes of a block.
  [[nodiscard]] std::string trailer(uint64_t block, std::span<const uint32_t> crcs) const;
  /// The CRCs of its pieces, or nothing where it is not that of this block.
  [[nodiscard]] std::optional<std::vector<uint32_t>> crcs(uint64_t block, std::string_view trailer) const;
};

}  // namespace millrace
