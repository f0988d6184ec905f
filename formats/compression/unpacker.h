#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "millrace/formats/compression/compression.h"
#include "millrace/formats/compression/frame_table.h"
#include "millrace/formats/compression/inflate.h"
#include "millrace/formats/compression/zstd_unpacker.h"

namespace millrace {

/// Unpacks a file of any compression: an Inflater or a ZstdUnpacker, which say what holds of each call.
class Unpacker {
 public:
  /// Throws kInvalidArgument for kNone. `frames`: of a zstd file, where that has a seek table.
  explicit Unpacker(Compression compression, std::shared_ptr<const FrameTable> frames = nullptr,
                    InflateEngine engine = InflateEngine::kFastest);
  /// Goes on from a seek point of the file. Throws `kIndex` when the point makes no sense.
  Unpacker(Compression compression, const SeekPoint& point, std::shared_ptr<const FrameTable> frames = nullptr);

  UnpackResult run(std::span<const std::byte> input, std::span<std::byte> output);
  /// Of zstd always false: what its checksums are of is lost with them.
  bool pass_bad_trailer();
  /// `distance`: of zlib and gzip, whose engine must be kZlib.
  void find_seek_points(uint64_t distance);
  [[nodiscard]] std::vector<SeekPoint> take_seek_points();
  bool finish();
  const Error& error() const;
  /// Of zstd: where the frame begins that was begun last. 0 for others.
  uint64_t stream_begin() const;

 private:
  std::variant<Inflater, ZstdUnpacker> unpacker_;
};

}  // namespace millrace
