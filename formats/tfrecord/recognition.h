#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "millrace/formats/compression/compression.h"

namespace millrace {

/// Bytes at the beginning of a shard by which `recognize_compression` decides.
constexpr size_t kRecognitionBytes = 12;

/// Whether bytes begin with the length of a record and the right CRC of it.
[[nodiscard]] bool begins_like_records(std::string_view first_bytes);

/// What a file that does not begin with a record seems to be instead, as an addition to the message about it: `; the
/// file begins like HTML, and is no TFRecord file`; empty where nothing is recognised. Reads up to 262 bytes.
[[nodiscard]] std::string describe_other_format(std::string_view first_bytes);

/// How a shard is stored, by its first bytes: at least `kRecognitionBytes`, or the whole file. Throws `compression` for
/// a format that is not read here, and for another one than `declared`.
[[nodiscard]] Compression recognize_compression(std::string_view first_bytes, std::optional<Compression> declared);

}  // namespace millrace
