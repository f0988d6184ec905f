#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "millrace/formats/compression/compression.h"
#include "millrace/formats/compression/inflate.h"
#include "millrace/formats/compression/seek_point.h"

namespace millrace {

// The deflate data of one stream after the other, without headers and trailers: the inner part of an Inflater.
class DeflateDecoder {
 public:
  enum class Status { kMore, kDone, kInvalid };
  struct Result {
    Status status;
    size_t num_read;
    size_t num_written;
  };

  virtual ~DeflateDecoder() = default;
  virtual void begin_stream() = 0;
  // Goes on in the middle of a stream; the input begins with the byte that holds the point's bit. Throws `kIndex` when
  // the point makes no sense.
  virtual void enter_stream(const SeekPoint& point) = 0;
  virtual Result run(std::span<const std::byte> input, std::span<std::byte> output) = 0;
  // After kDone: the stream's CRC-32 (gzip) or Adler-32 (zlib), and bytes after the stream that were taken too.
  virtual uint32_t checksum() const = 0;
  virtual std::span<const std::byte> excess() const { return {}; }

  // Keeps what `mark` needs. Before the first stream; false when this decoder cannot.
  virtual bool track() { return false; }
  // This place, if a decoder can enter the stream here: between two blocks, or in front of a symbol of which nothing
  // was written yet. Only bit (counted back from the end of the input that was taken, so negative or 0, as a two's
  // complement), checksum, header and window are set.
  virtual std::optional<SeekPoint> mark() { return std::nullopt; }
};

// Throws kInvalidArgument for kNone.
std::unique_ptr<DeflateDecoder> make_deflate_decoder(Compression compression, InflateEngine engine);

}  // namespace millrace
