#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

/// `size` bytes of an object from `offset` on, at least one.
struct ByteRange {
  uint64_t offset = 0;
  uint64_t size = 0;
};

/// The value of a `Range` field (RFC 9110, 14.2): `bytes=0-65535`.
[[nodiscard]] std::string range_field(const ByteRange& range);

/// What a `Content-Range` field says (RFC 9110, 14.4).
struct ContentRange {
  std::optional<ByteRange> range = {};       ///< none: `bytes */1234`, of an answer without such bytes
  std::optional<uint64_t> object_size = {};  ///< none: `*`
};

/// Nothing where the text has another form, or numbers that cannot be.
[[nodiscard]] std::optional<ContentRange> parse_content_range(std::string_view text);

/// A decimal number without sign, up to 2^63 - 1, and nothing else.
[[nodiscard]] std::optional<uint64_t> parse_count(std::string_view text);

}  // namespace millrace
