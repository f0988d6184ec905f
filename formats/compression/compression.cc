#include "millrace/formats/compression/compression.h"

#include <string>

#include "millrace/formats/text/lower_case.h"

namespace millrace {

std::string_view to_string(Compression compression) {
  switch (compression) {
    case Compression::kNone: return "none";
    case Compression::kZlib: return "ZLIB";
    case Compression::kGzip: return "GZIP";
    case Compression::kZstd: return "ZSTD";
  }
  return "unknown";
}

std::optional<Compression> compression_from_name(std::string_view name) {
  const std::string lower = lower_case(name);
  if (lower.empty() || lower == "none") return Compression::kNone;
  if (lower == "zlib") return Compression::kZlib;
  if (lower == "gzip") return Compression::kGzip;
  if (lower == "zstd") return Compression::kZstd;
  return std::nullopt;
}

ContentGuess guess_compression(std::string_view first_bytes) {
  using std::string_view_literals::operator""sv;
  if (first_bytes.starts_with("\x1f\x8b"sv)) return {Compression::kGzip, "gzip"};
  if (first_bytes.starts_with("\x28\xb5\x2f\xfd"sv)) return {Compression::kZstd, "zstd"};
  // A skippable frame (RFC 8878, 3.1.2), with which our own shards begin.
  if (first_bytes.size() >= 4 && (first_bytes[0] & 0xf0) == 0x50 && first_bytes.substr(1, 3) == "\x2a\x4d\x18"sv) {
    return {Compression::kZstd, "zstd"};
  }
  if (first_bytes.starts_with("\xfd"
                              "7zXZ\0"sv)) {
    return {std::nullopt, "xz"};
  }
  if (first_bytes.starts_with("\xff\x06\0\0sNaPpY"sv)) return {std::nullopt, "snappy"};  // framing_format.txt, 4.1
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
  return {Compression::kNone, "neither gzip nor zlib nor zstd"};
}

}  // namespace millrace
