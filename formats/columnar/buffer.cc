#include "formats/columnar/buffer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <new>

namespace millrace {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallest = 256;
// Four classes to each power of two waste at most 25%.
constexpr int kStepsPerDoubling = 4;
constexpr int kClasses = 40 * kStepsPerDoubling;
constexpr int kKeptPerClass = 64;
constexpr size_t kKeptBytesPerClass = size_t{256} << 20;

struct SizeClass {
  int index;
  size_t bytes;
};

SizeClass size_class(size_t bytes) {
  if (bytes <= kSmallest) return {0, kSmallest};
  const int doubling = std::bit_width(bytes - 1) - 1;  // 2^doubling < bytes <= 2^(doubling + 1)
  const size_t step = (size_t{1} << doubling) / kStepsPerDoubling;
  const size_t steps = (bytes - (size_t{1} << doubling) + step - 1) / step;  // 1 to kStepsPerDoubling
  const int first = std::bit_width(kSmallest) - 1;
  return {(doubling - first) * kStepsPerDoubling + static_cast<int>(steps), (size_t{1} << doubling) + steps * step};
}

}  // namespace

// Free buffers wait in small arrays of atomic slots, one array per size class: taking one is an exchange, giving one
// back a compare-and-swap, and there is no list whose head could change and change back between two looks.
struct BufferBody::PoolState {
  struct FreeList {
    std::array<std::atomic<BufferBody*>, kKeptPerClass> slots{};
    std::atomic<int32_t> filled{0};
  };

  ~PoolState() {
    for (FreeList& list : free_lists) {
      for (auto& slot : list.slots) destroy(slot.load());
    }
  }

  static void destroy(BufferBody* body) {
    if (body == nullptr) return;
    ::operator delete (body->data_, std::align_val_t{kAlignment});
    delete body;
  }

  BufferBody* take(int index) {
    FreeList& list = free_lists[index];
    if (list.filled.load(std::memory_order_relaxed) <= 0) return nullptr;
    for (auto& slot : list.slots) {
      if (slot.load(std::memory_order_relaxed) == nullptr) continue;
      if (BufferBody* body = slot.exchange(nullptr, std::memory_order_acquire)) {
        list.filled.fetch_sub(1, std::memory_order_relaxed);
        return body;
      }
    }
    return nullptr;
  }

  bool keep(BufferBody* body) {
    FreeList& list = free_lists[body->size_class_];
    // Of very large buffers fewer are kept.
    const auto limit = std::max<int64_t>(1, static_cast<int64_t>(kKeptBytesPerClass / body->capacity_));
    if (list.filled.load(std::memory_order_relaxed) >= limit) return false;
    for (auto& slot : list.slots) {
      BufferBody* empty = nullptr;
      if (slot.load(std::memory_order_relaxed) == nullptr &&
          slot.compare_exchange_strong(empty, body, std::memory_order_release, std::memory_order_relaxed)) {
        list.filled.fetch_add(1, std::memory_order_relaxed);
        return true;
      }
    }
    return false;
  }

  std::array<FreeList, kClasses> free_lists;
  std::atomic<int64_t> bytes_in_use{0};
  std::atomic<int64_t> fresh_allocations{0};
};

void BufferBody::release() noexcept {
  // A buffer on the free list must not keep the pool alive.
  const std::shared_ptr<PoolState> pool = std::move(pool_);
  pool->bytes_in_use.fetch_sub(static_cast<int64_t>(capacity_), std::memory_order_relaxed);
  if (!pool->keep(this)) PoolState::destroy(this);
}

BufferPool::BufferPool() : state_(std::make_shared<BufferBody::PoolState>()) {}

Buffer BufferPool::allocate(size_t bytes) {
  const SizeClass wanted = size_class(bytes);
  if (wanted.index >= kClasses) throw std::bad_alloc();
  BufferBody* body = state_->take(wanted.index);
  if (body == nullptr) {
    std::unique_ptr<BufferBody, void (*)(BufferBody*)> fresh(new BufferBody, &BufferBody::PoolState::destroy);
    fresh->data_ = static_cast<std::byte*>(::operator new (wanted.bytes, std::align_val_t{kAlignment}));
    fresh->capacity_ = wanted.bytes;
    fresh->size_class_ = wanted.index;
    body = fresh.release();
    state_->fresh_allocations.fetch_add(1, std::memory_order_relaxed);
  }
  body->pool_ = state_;
  state_->bytes_in_use.fetch_add(static_cast<int64_t>(body->capacity_), std::memory_order_relaxed);
  return Buffer(body);
}

int64_t BufferPool::bytes_in_use() const { return state_->bytes_in_use.load(std::memory_order_relaxed); }

int64_t BufferPool::fresh_allocations() const { return state_->fresh_allocations.load(std::memory_order_relaxed); }

}  // namespace millrace
