#include "millrace/ops/row_memory/cached_rows.h"

namespace millrace {

std::byte* CachedRows::add(size_t bytes) {
  constexpr size_t kSharedBytes = 256 << 10;
  if (bytes > kSharedBytes / 4) return add_buffer(bytes);
  if (bytes > room_bytes_) {
    room_ = add_buffer(kSharedBytes);
    room_bytes_ = kSharedBytes;
  }
  room_bytes_ -= bytes;
  return std::exchange(room_, room_ + bytes);
}

std::byte* CachedRows::add_buffer(size_t bytes) {
  const Buffer& buffer = buffers_.emplace_back(pool_.allocate(bytes));
  held_bytes_ += static_cast<int64_t>(buffer->capacity());
  return buffer->data();
}

Ref<Resource> CachedRows::of(const Column& column) {
  Ref<Resource> rows;
  bool others = false;
  column.holds().for_each([&](const Ref<Resource>& resource) {
    if (rows || dynamic_cast<const CachedRows*>(resource.get()) == nullptr) {
      others = true;
    } else {
      rows = resource;
    }
  });
  return others ? Ref<Resource>() : rows;
}

}  // namespace millrace
