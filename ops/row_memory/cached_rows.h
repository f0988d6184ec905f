#pragma once

#include <cstddef>
#include <vector>

#include "millrace/formats/columnar/column.h"

namespace millrace {

/// Rows that a cache keeps as bytes. Views into it need no copy: the memory stays as long as the cache does, whoever
/// else keeps a row. One thread adds rows, any may read those that it was given.
class CachedRows final : public Resource {
 public:
  explicit CachedRows(const BufferPool& pool) : pool_(pool) {}
  /// Room for `bytes`, to be filled by the caller.
  [[nodiscard]] std::byte* add(size_t bytes);
  /// Bytes of memory that the rows take, with what is free for more.
  int64_t held_bytes() const { return held_bytes_; }
  /// Those that all `bytes` values of a column point into; null where they point to anything else.
  [[nodiscard]] static Ref<Resource> of(const Column& column);

 private:
  void release() noexcept override { delete this; }
  std::byte* add_buffer(size_t bytes);

  BufferPool pool_;
  std::vector<Buffer> buffers_;
  int64_t held_bytes_ = 0;
  std::byte* room_ = nullptr;  // of the last shared buffer
  size_t room_bytes_ = 0;
};

}  // namespace millrace
