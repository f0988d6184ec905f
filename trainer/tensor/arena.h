#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace millrace {

/// Memory for the activations and gradients of one step, used again by the next: after a few steps of the same shape
/// nothing is asked of the system any more. One thread at a time.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// `count` values of T on a 64-byte boundary, undefined. Throws std::bad_alloc.
  template <typename T>
  T* allocate(int64_t count) {
    return static_cast<T*>(allocate_bytes(static_cast<size_t>(count) * sizeof(T)));
  }
  /// Gives back what `allocate` gave for the same `count`: the next request of that size gets it, while it is still in
  /// the cache. Optional.
  template <typename T>
  void release(T* values, int64_t count) {
    release_bytes(values, static_cast<size_t>(count) * sizeof(T));
  }
  /// All memory is free again; nobody may hold a pointer into it.
  void reset();

  /// Bytes held from the system.
  size_t capacity() const;

 private:
  struct Free {
    void operator()(std::byte* chunk) const;
  };
  struct Chunk {
    std::unique_ptr<std::byte, Free> bytes;
    size_t size = 0;
  };
  struct Spare {
    size_t size = 0;
    std::vector<void*> blocks;
  };

  void* allocate_bytes(size_t size);
  void release_bytes(void* block, size_t size);
  void add_chunk(size_t size);

  std::vector<Chunk> chunks_;  // the last one is being filled
  size_t used_ = 0;            // of the last one
  std::vector<Spare> spares_;  // few sizes occur in a step; those of another step may be others
};

}  // namespace millrace
