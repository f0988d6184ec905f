#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "millrace/formats/columnar/buffer.h"

namespace millrace {

/// An allocator of standard containers whose memory is a pool's (`BufferPool::take`) from 64 KiB on: for numbers beside
/// the values of columns, of which the data says how many there are. The pool must outlive it.
template <typename T>
class CountedAllocator {
 public:
  using value_type = T;

  explicit CountedAllocator(BufferPool& pool) noexcept : pool_(&pool) {}
  template <typename U>
  // NOLINTNEXTLINE(google-explicit-constructor): containers need it
  CountedAllocator(const CountedAllocator<U>& other) noexcept : pool_(&other.pool()) {}

  BufferPool& pool() const noexcept { return *pool_; }

  /// Throws `MemoryBudgetError`, std::bad_alloc.
  [[nodiscard]] T* allocate(size_t count) {
    return count < kLeast ? std::allocator<T>().allocate(count) : static_cast<T*>(pool_->take(bytes_of(count)));
  }
  void deallocate(T* memory, size_t count) noexcept {
    count < kLeast ? std::allocator<T>().deallocate(memory, count) : pool_->give_back(memory, bytes_of(count));
  }

  template <typename U>
  friend bool operator==(const CountedAllocator& a, const CountedAllocator<U>& b) noexcept {
    return a.pool_ == &b.pool();
  }

 private:
  static constexpr size_t kLeast = (size_t{64} << 10) / sizeof(T);
  // No pool has as many as do not fit.
  static size_t bytes_of(size_t count) { return count > SIZE_MAX / 4 / sizeof(T) ? SIZE_MAX / 4 : count * sizeof(T); }

  BufferPool* pool_;
};

template <typename T>
using CountedVector = std::vector<T, CountedAllocator<T>>;

}  // namespace millrace
