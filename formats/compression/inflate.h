#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/compression/compression.h"
#include "millrace/formats/compression/seek_point.h"
#include "millrace/formats/compression/unpack_result.h"
#include "millrace/formats/error.h"

namespace millrace {

/// What unpacks the deflate data inside the streams.
enum class InflateEngine {
  kFastest,  ///< ISA-L where the build has it, else zlib
  kZlib,     ///< zlib
};

/// Unpacks a file of zlib streams or gzip members, any number of them one after the other, empty ones included
/// (RFC 1950, 1951, 1952), a piece at a time and without I/O. Checksums and sizes are checked when a stream ends, after
/// its bytes were delivered; anything but another stream after a stream is an error. A file of no bytes is a file of
/// no streams. One thread at a time.
class Inflater {
 public:
  using Result = UnpackResult;
  using Status = Result::Status;

  /// `compression` is kZlib or kGzip; throws kInvalidArgument for others.
  explicit Inflater(Compression compression, InflateEngine engine = InflateEngine::kFastest);
  /// Goes on from a seek point of the file: the input begins with the byte that `point.bit` lies in. The stream that it
  /// lies in is checked by its trailer like any other, with the point's checksum of what lies before. Throws `kIndex`
  /// when the point makes no sense; one of another file gives damaged data or a wrong checksum.
  Inflater(Compression compression, const SeekPoint& point, InflateEngine engine = InflateEngine::kFastest);
  ~Inflater();
  Inflater(Inflater&&) noexcept;
  Inflater& operator=(Inflater&&) noexcept;

  /// Unpacks from `input` to `output` until one of them is used up. After an error every call gives it again.
  Result run(std::span<const std::byte> input, std::span<std::byte> output);
  /// After an error: true when only the checksum or size in the trailer of a stream was wrong. Then the next `run` goes
  /// on after that trailer.
  bool pass_bad_trailer();

  /// From now on notes places to go on from, `distance` unpacked bytes from one to the next: up to 258 bytes more
  /// inside a block, up to 64 KiB more where a stored block lies, and less where a stream begins after half the
  /// distance. A block may be as long as it likes. Before the first `run`, with InflateEngine::kZlib.
  void find_seek_points(uint64_t distance);
  /// The points found since the last call.
  [[nodiscard]] std::vector<SeekPoint> take_seek_points();

  /// The file ends here: false, with `error` set (`truncated`), when that is inside a stream.
  bool finish();

  /// What is wrong, with the place in the compressed bytes in its message. Code `compression` or `truncated`; shard,
  /// offset and record are the caller's to add.
  const Error& error() const;
  /// Compressed bytes taken so far.
  uint64_t num_read() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
