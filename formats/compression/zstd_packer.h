#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace millrace {

/// Packs records as a zstd file that can be entered at any of its frames: independent frames with checksums, cut
/// between records, and a seek table after them (see FrameTable). `zstd -d` reads it like any other. The same bytes in
/// give the same bytes out. One thread at a time.
class ZstdPacker {
 public:
  static constexpr int kDefaultLevel = 3;
  static constexpr int kMostLevel = 19;  // those above need more memory to be read
  static constexpr size_t kDefaultFrameBytes = 256 << 10;

  /// `level` is zstd's, 1 to 19. A frame is ended before a record that would bring it above `frame_bytes` unpacked, so
  /// that a longer record is a frame of its own. Throws kInvalidArgument for other levels and frames of no bytes.
  explicit ZstdPacker(int level = kDefaultLevel, size_t frame_bytes = kDefaultFrameBytes);
  ~ZstdPacker();
  ZstdPacker(ZstdPacker&&) noexcept;
  ZstdPacker& operator=(ZstdPacker&&) noexcept;

  /// What is written from here on is a record of `bytes` bytes. Appends what is ready to `out`.
  void begin_record(uint64_t bytes, std::string& out);
  /// Bytes of the record; before the first one, bytes that belong to none.
  void write(std::string_view bytes, std::string& out);
  /// Ends the frame, so that a reader can get all that was written so far. Costs compression.
  void flush(std::string& out);
  /// Appends the last frame and the seek table. Nothing may follow.
  void finish(std::string& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
