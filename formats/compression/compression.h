#pragma once

#include <optional>
#include <string_view>

namespace millrace {

/// How the bytes of a shard are stored: the first three as TensorFlow names and writes them, the last one our own.
/// Indexes and states hold these numbers.
enum class Compression {
  kNone,  ///< as they are
  kZlib,  ///< zlib streams (RFC 1950)
  kGzip,  ///< gzip members (RFC 1952)
  kZstd,  ///< zstd frames (RFC 8878), as we write them with a seek table after them
};

/// `none`, `ZLIB`, `GZIP`, `ZSTD`.
std::string_view to_string(Compression compression);

/// The compression called `name`: `none` or empty, `zlib`, `gzip`, `zstd`, in either case. Nothing for other names.
std::optional<Compression> compression_from_name(std::string_view name);

/// What the first bytes of a file look like.
struct ContentGuess {
  /// Nothing when the first bytes are those of a format that is not read here.
  std::optional<Compression> compression = {};
  /// `gzip`, `zlib`, `zstd`, `xz`, ..., or `neither gzip nor zlib nor zstd`.
  std::string_view description = {};
};

/// Recognises the magic bytes of compressed formats; needs up to 6 bytes and guesses with what there is. Two bytes of
/// any content pass for zlib once in 500, so callers that can recognise their own uncompressed content ask that first.
ContentGuess guess_compression(std::string_view first_bytes);

}  // namespace millrace
