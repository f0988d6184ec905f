#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "millrace/formats/compression/frame_table.h"
#include "millrace/formats/compression/seek_point.h"
#include "millrace/formats/compression/unpack_result.h"
#include "millrace/formats/error.h"

namespace millrace {

/// Unpacks a file of zstd frames, any number of them one after the other (RFC 8878), a piece at a time and without I/O.
/// Skippable frames are passed. Nothing of a frame with a checksum is given before the checksum was found right, unless
/// the frame unpacks to more than kMostHeld. Frames that need a dictionary or a window above kMostWindow are errors;
/// what a frame's header says takes no memory beyond these two. A file of no bytes is one of no frames; one that begins
/// as ours do and ends without a seek table is cut. One thread at a time.
class ZstdUnpacker {
 public:
  using Result = UnpackResult;
  using Status = Result::Status;
  static constexpr size_t kMostHeld = 1 << 20;
  /// What levels up to 19 of the zstd program need.
  static constexpr uint64_t kMostWindow = 8 << 20;

  /// With `frames` every frame that unpacks to something must be where they say.
  explicit ZstdUnpacker(std::shared_ptr<const FrameTable> frames = nullptr);
  /// Goes on from a frame of the file: the input begins with its first byte. Throws `kIndex` for a point inside a
  /// frame.
  explicit ZstdUnpacker(const SeekPoint& point, std::shared_ptr<const FrameTable> frames = nullptr);
  ~ZstdUnpacker();
  ZstdUnpacker(ZstdUnpacker&&) noexcept;
  ZstdUnpacker& operator=(ZstdUnpacker&&) noexcept;

  /// Unpacks from `input` to `output` until one of them is used up. After an error every call gives it again.
  Result run(std::span<const std::byte> input, std::span<std::byte> output);

  /// From now on notes where frames begin that unpack to something, but for one at the very beginning. Before the first
  /// `run`.
  void find_seek_points();
  /// The points found since the last call.
  [[nodiscard]] std::vector<SeekPoint> take_seek_points();

  /// The file ends here: false, with `error` set (`truncated`), when that is inside a frame or before the seek table.
  bool finish();

  /// What is wrong, with the place in the compressed bytes in its message. Code `compression` or `truncated`; shard,
  /// offset and record are the caller's to add.
  const Error& error() const;
  /// Compressed bytes taken so far, those before the point included.
  uint64_t num_read() const;
  /// Where the frame begins that was begun last.
  uint64_t frame_begin() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Unpacks whole frames, each by itself. One thread at a time.
class ZstdFrameUnpacker {
 public:
  ZstdFrameUnpacker();
  ~ZstdFrameUnpacker();

  /// Unpacks a frame, and skippable ones around it, that begins at byte `begin` of its file and must fill `output`; its
  /// checksum is checked. An error `compression` otherwise.
  std::optional<Error> unpack(std::span<const std::byte> frame, uint64_t begin, std::span<std::byte> output);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
