#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "millrace/formats/compression/compression.h"

namespace millrace {

/// The header of a zlib stream or a gzip member (RFC 1950, 2.2; RFC 1952, 2.3), taken byte by byte. Nothing of it is
/// kept: what it says about its file has no meaning here. One thread at a time.
class StreamHeader {
 public:
  enum class Step {
    kMore,      ///< the next byte is its own too
    kDone,      ///< deflate data follow
    kNoHeader,  ///< such bytes begin no stream: `problem` says why, "it begins with 00, expected 1f 8b"
    kBadCrc,    ///< it is damaged: "has the CRC 1234, its field says 4321"
  };

  /// kZlib or kGzip.
  explicit StreamHeader(Compression compression) : is_gzip_(compression == Compression::kGzip) { begin(); }

  /// The next byte is the first one of another header.
  void begin();
  /// Not after kDone or a problem, before `begin`.
  Step take(uint8_t byte);
  const std::string& problem() const { return problem_; }

 private:
  // Each but the first may be missing.
  enum class Part { kFixed, kExtraLength, kExtra, kName, kComment, kCrc };

  Step take_gzip(uint8_t byte);
  Step take_zlib(uint8_t byte);
  Step next_part();
  Step refuse(std::string problem);
  uint32_t two_bytes() const { return static_cast<uint32_t>(fixed_[0] | fixed_[1] << 8); }

  const bool is_gzip_;
  Part part_ = Part::kFixed;
  std::array<uint8_t, 10> fixed_{};  // bytes of a field of fixed size
  uint32_t num_fixed_ = 0;
  uint8_t flags_ = 0;
  uint32_t num_extra_ = 0;
  uint32_t crc_ = 0;
  std::string problem_;
};

}  // namespace millrace
