#include "millrace/trainer/tensor/arena.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include <sys/mman.h>

namespace millrace {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kFirstChunk = size_t{4} << 20;

size_t rounded(size_t size, size_t to) { return (size + to - 1) / to * to; }

}  // namespace

void Arena::Free::operator()(std::byte* chunk) const { std::free(chunk); }

void* Arena::allocate_bytes(size_t size) {
  size = rounded(std::max<size_t>(size, 1), kAlignment);
  for (Spare& spare : spares_) {
    if (spare.size != size || spare.blocks.empty()) continue;
    void* block = spare.blocks.back();
    spare.blocks.pop_back();
    return block;
  }
  if (chunks_.empty() || chunks_.back().size - used_ < size) {
    add_chunk(std::max({size, kFirstChunk, chunks_.empty() ? 0 : chunks_.back().size}));
  }
  void* block = chunks_.back().bytes.get() + used_;
  used_ += size;
  return block;
}

void Arena::release_bytes(void* block, size_t size) {
  size = rounded(std::max<size_t>(size, 1), kAlignment);
  for (Spare& spare : spares_) {
    if (spare.size == size) return spare.blocks.push_back(block);
  }
  spares_.push_back({.size = size, .blocks = {block}});
}

void Arena::reset() {
  spares_.clear();
  used_ = 0;
  if (chunks_.size() < 2) return;
  const size_t all = capacity();  // the next step fits into one chunk
  chunks_.clear();
  add_chunk(all);
}

size_t Arena::capacity() const {
  size_t size = 0;
  for (const Chunk& chunk : chunks_) size += chunk.size;
  return size;
}

void Arena::add_chunk(size_t size) {
  size = rounded(size, kHugePage);
  std::unique_ptr<std::byte, Free> bytes(static_cast<std::byte*>(std::aligned_alloc(kHugePage, size)));
  if (!bytes) throw std::bad_alloc();
  ::madvise(bytes.get(), size, MADV_HUGEPAGE);  // fewer page faults and TLB misses where the system has them
  chunks_.push_back({.bytes = std::move(bytes), .size = size});
  used_ = 0;
}

}  // namespace millrace
