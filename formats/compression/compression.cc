#include "formats/compression/compression.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace millrace {

std::string_view to_string(Compression compression) {
  switch (compression) {
    case Compression::kNone: return "none";
    case Compression::kZlib: return "ZLIB";
    case Compression::kGzip: return "GZIP";
  }
  return "unknown";
}

std::optional<Compression> compression_from_name(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower.empty() || lower == "none") return Compression::kNone;
  if (lower == "zlib") return Compression::kZlib;
  if (lower == "gzip") return Compression::kGzip;
  return std::nullopt;
}

ContentGuess guess_compression(std::string_view first_bytes) {
  using std::string_view_literals::operator""sv;
  if (first_bytes.starts_with("\x1f\x8b"sv)) return {Compression::kGzip, "gzip"};
  if (first_bytes.starts_with("\x28\xb5\x2f\xfd"sv)) return {std::nullopt, "zstd"};
  if (first_bytes.starts_with("\xfd"
                              "7zXZ\0"sv)) {
    return {std::nullopt, "xz"};
  }
  if (first_bytes.starts_with("BZh"sv)) return {std::nullopt, "bzip2"};
  if (first_bytes.starts_with("\x04\x22\x4d\x18"sv)) return {std::nullopt, "lz4"};
  if (first_bytes.size() >= 2) {
    const auto method = static_cast<unsigned char>(first_bytes[0]);
    const auto flags = static_cast<unsigned char>(first_bytes[1]);
    // RFC 1950: deflate with a window of at most 32 KiB, no preset dictionary, a multiple of 31.
    if ((method & 0x0f) == 8 && (method >> 4) <= 7 && (flags & 0x20) == 0 && (method * 256 + flags) % 31 == 0) {
      return {Compression::kZlib, "zlib"};
    }
  }
  return {Compression::kNone, "neither gzip nor zlib"};
}

}  // namespace millrace
