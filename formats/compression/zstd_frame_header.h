#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace millrace {

/// What stands at the beginning of a data frame (RFC 8878, 3.1.1.1): what has to be known before anything is unpacked.
struct ZstdFrameHeader {
  /// The longest header there is, of which a skippable frame of ours needs less.
  static constexpr size_t kMostBytes = 18;

  bool has_checksum = false;
  uint64_t dictionary = 0;          ///< its id; 0: none
  uint64_t window = 0;              ///< bytes that what follows may refer to
  std::optional<uint64_t> content;  ///< bytes that the frame unpacks to, where it says so

  /// How many bytes the header of a frame has that begins with these, as far as they tell: never more than it has. Of a
  /// skippable frame those in front of its content, and the mark of ours where it may have one; of what is no frame its
  /// magic number.
  [[nodiscard]] static size_t bytes_needed(std::span<const std::byte> begin);
  /// `header`: all of the header of a data frame.
  [[nodiscard]] static ZstdFrameHeader parse(std::span<const std::byte> header);
};

}  // namespace millrace
