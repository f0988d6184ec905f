#pragma once

#include <cstddef>
#include <span>

#include "millrace/formats/columnar/buffer.h"

namespace millrace {

/// The bytes of a file that a reader has at hand, in one piece, as they come in chunks: in front the reader takes them
/// away, after new ones come. Not for several threads.
class ByteWindow {
 public:
  explicit ByteWindow(BufferPool& pool) : pool_(pool) {}

  /// Where the bytes are: who gives views of them away keeps a reference. May be null while there are none.
  const Buffer& buffer() const { return buffer_; }
  size_t size() const { return end_ - begin_; }
  /// The first byte. Null while there is no buffer.
  std::byte* data() const { return buffer_ ? buffer_->data() + begin_ : nullptr; }

  void drop(size_t bytes) { begin_ += bytes; }
  void clear();

  /// Bytes that may be written after those at hand.
  std::span<std::byte> room() const {
    return buffer_ ? std::span(buffer_->data() + end_, buffer_->capacity() - end_) : std::span<std::byte>();
  }
  /// The first bytes of `room` were written.
  void commit(size_t bytes) { end_ += bytes; }
  /// Moves to a buffer with room for `bytes`.
  void move_to_room_for(size_t bytes);
  /// Copies bytes to `room`, which must be large enough.
  void append(std::span<const std::byte> bytes);
  /// Goes on in `chunk`, whose new bytes are [begin, end): what is at hand is put in front of them. False, with nothing
  /// done, when it has no place there. The chunk must have no other reader.
  bool go_on_in(Buffer& chunk, size_t begin, size_t end);

  /// Leaves the buffer to those who have views of it, or to the pool, where little of it is still at hand: it does not
  /// stay here until the reader is asked again.
  void leave_buffer();
  /// The same of a buffer that a long record was read into.
  void leave_large_buffer();

 private:
  BufferPool& pool_;
  Buffer buffer_;
  size_t begin_ = 0;  // bytes [begin_, end_) of buffer_ are at hand
  size_t end_ = 0;
};

}  // namespace millrace
