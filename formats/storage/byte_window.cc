#include "millrace/formats/storage/byte_window.h"

#include <cassert>
#include <cstring>
#include <utility>

namespace millrace {

void ByteWindow::clear() {
  buffer_ = {};
  begin_ = end_ = 0;
}

void ByteWindow::move_to_room_for(size_t bytes) {
  const size_t at_hand = size();
  Buffer larger = pool_.allocate(at_hand + bytes);
  if (at_hand > 0) std::memcpy(larger->data(), data(), at_hand);
  buffer_ = std::move(larger);
  begin_ = 0;
  end_ = at_hand;
}

void ByteWindow::append(std::span<const std::byte> bytes) {
  assert(bytes.size() <= room().size());
  std::memcpy(room().data(), bytes.data(), bytes.size());
  end_ += bytes.size();
}

bool ByteWindow::go_on_in(Buffer& chunk, size_t begin, size_t end) {
  const size_t at_hand = size();
  if (at_hand > begin) return false;
  if (at_hand > 0) std::memcpy(chunk->data() + begin - at_hand, data(), at_hand);
  buffer_ = std::move(chunk);
  begin_ = begin - at_hand;
  end_ = end;
  return true;
}

void ByteWindow::leave_buffer() {
  if (!buffer_ || size() > buffer_->capacity() / 16) return;
  if (size() > 0) {
    move_to_room_for(0);
  } else {
    clear();
  }
}

void ByteWindow::leave_large_buffer() {
  constexpr size_t kLarge = 1 << 20;
  if (buffer_ && buffer_->capacity() > kLarge) leave_buffer();
}

}  // namespace millrace
