#include "millrace/formats/storage/remote/cache_block.h"

#include <cstring>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/storage/remote/s3_signature.h"
#include "millrace/formats/storage/shown_url.h"
#include "millrace/formats/tfrecord/crc.h"

namespace millrace {
namespace {

constexpr std::string_view kMark = "MRBLOCK1";
constexpr size_t kHashDigits = 32;

template <typename Number>
void put(std::string& bytes, Number value) {
  static_assert(std::is_unsigned_v<Number>);
  for (size_t i = 0; i < sizeof(Number); ++i) bytes += static_cast<char>(value >> (8 * i));
}

}  // namespace

CacheObject CacheObject::of(const std::string& cache, const std::string& identity, const std::string& version,
                            uint64_t size, const std::string& url) {
  const std::string hash = sha256_hex(fmt::format("{}\n{}\n{}", identity, version, size)).substr(0, kHashDigits);
  const nlohmann::ordered_json about{{"url", shown_url(url)}, {"version", version}, {"bytes", size}};
  return {.folder = fmt::format("{}/{}/{}", cache, hash.substr(0, 2), hash),
          .hash = hash,
          .size = size,
          .about = about.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

uint64_t CacheObject::length(uint64_t block) const {
  return std::min(size - block * kCacheBlockBytes, kCacheBlockBytes);
}

uint64_t CacheObject::file_size(uint64_t block) const {
  const uint64_t bytes = length(block);
  return bytes + num_pieces(bytes) * sizeof(uint32_t) + kHashDigits + 2 * sizeof(uint64_t) + sizeof(uint32_t) +
         kMark.size();
}

std::string CacheObject::path(uint64_t block) const { return fmt::format("{}/{:08}", folder, block); }

std::string CacheObject::trailer(uint64_t block, std::span<const uint32_t> crcs) const {
  std::string bytes;
  for (const uint32_t crc : crcs) put(bytes, crc);
  bytes += hash;
  put(bytes, block);
  put(bytes, length(block));
  put(bytes, crc32c(bytes));
  return bytes.append(kMark);
}

std::optional<std::vector<uint32_t>> CacheObject::crcs(uint64_t block, std::string_view trailer) const {
  if (trailer.size() != file_size(block) - length(block)) return std::nullopt;
  std::vector<uint32_t> crcs(num_pieces(length(block)));
  for (size_t i = 0; i < crcs.size(); ++i) {
    for (size_t byte = 0; byte < sizeof(uint32_t); ++byte) {
      crcs[i] |= uint32_t{static_cast<unsigned char>(trailer[i * sizeof(uint32_t) + byte])} << (8 * byte);
    }
  }
  if (trailer != this->trailer(block, crcs)) return std::nullopt;
  return crcs;
}

}  // namespace millrace
