#include "millrace/formats/columnar/buffer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <mutex>
#include <new>

#include <sys/mman.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallest = 256;
// Four classes to each power of two waste at most 25%.
constexpr int kStepsPerDoubling = 4;
constexpr int kClasses = 40 * kStepsPerDoubling;
constexpr int kKeptPerClass = 64;
// Free buffers that one thread looks at first: what it wrote last is likely to be in its core's cache still.
constexpr uint32_t kHomeSlots = 8;
constexpr uint32_t kHomes = kKeptPerClass / kHomeSlots;
// Larger buffers are mapped: what is given back leaves the process at once, in any order.
constexpr size_t kMapped = size_t{1} << 20;
constexpr size_t kKeptBytesPerClass = size_t{256} << 20;
// Buffers from this size on share huge pages: the processor finds them without a walk through page tables, which inside
// a virtual machine costs as much as the memory itself.
constexpr size_t kShared = size_t{64} << 10;
constexpr size_t kHugePage = size_t{2} << 20;

thread_local int unlimited = 0;  // `BufferPool::Unlimited` of this thread

uint32_t home_of_this_thread() {
  static std::atomic<uint32_t> threads{0};
  thread_local const uint32_t home = threads.fetch_add(1, std::memory_order_relaxed) % kHomes;
  return home;
}

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

// Whole pages of what is mapped: the system unmaps nothing else.
size_t size_to_map(size_t bytes) {
  constexpr size_t kPage = size_t{4} << 10;
  return bytes < kMapped ? bytes : (bytes + kPage - 1) / kPage * kPage;
}

// Memory with as many huge pages as fit, for whole pages of bytes. Null when the system has none.
std::byte* map_huge_pages(size_t bytes) {
  const auto map = [](size_t size) {
    void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
  };
  if (bytes < kHugePage) return map(bytes);
  // With a page more there is a place where one may begin.
  auto* memory = map(bytes + kHugePage);
  if (memory == nullptr) return map(bytes);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(memory) % kHugePage) % kHugePage;
  if (before > 0) ::munmap(memory, before);
  ::munmap(memory + before + bytes, kHugePage - before);
  ::madvise(memory + before, bytes, MADV_HUGEPAGE);  // advice: without it there are many small pages
  return memory + before;
}

/// Buffers of one size, as many as fit into each huge page. A page is taken when all others are full, and goes back to
/// the system with the last of its buffers. The first buffers of a size do without: a size that is rarely asked for
/// must not take a page.
class HugePages {
 public:
  ~HugePages() {
    for (auto& [memory, page] : pages_) ::munmap(memory, kHugePage);
  }

  // Null when there are too few of this size yet, or no memory.
  std::byte* allocate(size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (++num_asked_ * bytes < 2 * kHugePage) return nullptr;
    auto page = std::find_if(pages_.begin(), pages_.end(), [](const auto& entry) { return entry.second.free != 0; });
    if (page == pages_.end()) {
      std::byte* memory = map_huge_pages(kHugePage);
      if (memory == nullptr) return nullptr;
      page = pages_.emplace(memory, Page{(uint64_t{1} << kHugePage / bytes) - 1, 0}).first;
    }
    const int place = std::countr_zero(page->second.free);
    page->second.free &= page->second.free - 1;
    ++page->second.used;
    return page->first + static_cast<size_t>(place) * bytes;
  }

  // False when it is none of theirs.
  bool free(std::byte* buffer, size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto page = pages_.upper_bound(buffer);
    if (page == pages_.begin()) return false;
    --page;
    const auto offset = static_cast<size_t>(buffer - page->first);
    if (offset >= kHugePage) return false;
    page->second.free |= uint64_t{1} << offset / bytes;
    if (--page->second.used == 0) {
      ::munmap(page->first, kHugePage);
      pages_.erase(page);
    }
    return true;
  }

 private:
  struct Page {
    uint64_t free;  // one bit for each place
    int used;
  };

  std::mutex mutex_;  // taken only when a buffer is made or dropped
  size_t num_asked_ = 0;
  std::map<std::byte*, Page> pages_;
};

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

  static bool shares_pages(size_t bytes) { return bytes >= kShared && bytes < kMapped; }

  void destroy(BufferBody* body) {
    if (body == nullptr) return;
    if (body->capacity_ >= kMapped) {
      ::munmap(body->data_, body->capacity_);
    } else if (!shares_pages(body->capacity_) ||
               !huge_pages[static_cast<size_t>(body->size_class_)].free(body->data_, body->capacity_)) {
      ::operator delete (body->data_, std::align_val_t{kAlignment});
    }
    delete body;
  }

  BufferBody* make(const SizeClass& wanted) {
    std::unique_ptr<BufferBody, void (*)(BufferBody*)> body(new BufferBody, [](BufferBody* unused) { delete unused; });
    if (wanted.bytes >= kMapped) {
      body->data_ = map_huge_pages(wanted.bytes);
      if (body->data_ == nullptr) throw std::bad_alloc();
    } else if (std::byte* shared = shares_pages(wanted.bytes)
                                       ? huge_pages[static_cast<size_t>(wanted.index)].allocate(wanted.bytes)
                                       : nullptr) {
      body->data_ = shared;
    } else {
      body->data_ = static_cast<std::byte*>(::operator new (wanted.bytes, std::align_val_t{kAlignment}));
    }
    body->capacity_ = wanted.bytes;
    body->size_class_ = wanted.index;
    return body.release();
  }

  // A free buffer leaves the pool.
  void drop(BufferBody* body) {
    if (body == nullptr) return;
    bytes_held.fetch_sub(static_cast<int64_t>(body->capacity_), std::memory_order_relaxed);
    destroy(body);
  }

  // Makes room for so many fresh bytes among the free buffers, the largest first.
  void make_room(int64_t bytes) {
    for (int index = kClasses - 1; index >= 0; --index) {
      while (bytes_held.load(std::memory_order_relaxed) + bytes > limit.load(std::memory_order_relaxed)) {
        BufferBody* body = take(index);
        if (body == nullptr) break;
        drop(body);
      }
    }
  }

  BufferBody* take(int index) {
    FreeList& list = free_lists[index];
    if (list.filled.load(std::memory_order_relaxed) <= 0) return nullptr;
    const uint32_t first = home_of_this_thread() * kHomeSlots;
    for (uint32_t i = 0; i < kKeptPerClass; ++i) {
      auto& slot = list.slots[(first + i) % kKeptPerClass];
      if (slot.load(std::memory_order_relaxed) == nullptr) continue;
      if (BufferBody* body = slot.exchange(nullptr, std::memory_order_acquire)) {
        list.filled.fetch_sub(1, std::memory_order_relaxed);
        return body;
      }
    }
    return nullptr;
  }

  bool keep(BufferBody* body) {
    if (bytes_held.load(std::memory_order_relaxed) > limit.load(std::memory_order_relaxed)) return false;
    FreeList& list = free_lists[body->size_class_];
    // Of very large buffers fewer are kept.
    const auto most = std::max<int64_t>(1, static_cast<int64_t>(kKeptBytesPerClass / body->capacity_));
    if (list.filled.load(std::memory_order_relaxed) >= most) return false;
    const uint32_t first = body->home_ * kHomeSlots;
    for (uint32_t i = 0; i < kKeptPerClass; ++i) {
      auto& slot = list.slots[(first + i) % kKeptPerClass];
      BufferBody* empty = nullptr;
      if (slot.load(std::memory_order_relaxed) == nullptr &&
          slot.compare_exchange_strong(empty, body, std::memory_order_release, std::memory_order_relaxed)) {
        list.filled.fetch_add(1, std::memory_order_relaxed);
        return true;
      }
    }
    return false;
  }

  // Throws when so many bytes more are too many. Nobody else is refused for bytes that are not given.
  void count_bytes(int64_t bytes) {
    const int64_t most = most_counted.load(std::memory_order_relaxed);
    int64_t before = counted.load(std::memory_order_relaxed);
    do {
      if (before > most - bytes) throw MemoryBudgetError(bytes, before, budget.load(std::memory_order_relaxed));
    } while (!counted.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  }

  void take_bytes(int64_t bytes, bool is_unlimited) {
    if (!is_unlimited) count_bytes(bytes);
    const int64_t in_use = bytes_in_use.fetch_add(bytes) + bytes;
    int64_t before = peak.load(std::memory_order_relaxed);
    while (in_use > before && !peak.compare_exchange_weak(before, in_use, std::memory_order_relaxed)) {
    }
  }

  // Sequentially consistent with `expect_room` and the look at the bytes that follows it: one of the two sees the
  // other.
  void give_back_bytes(int64_t bytes, bool was_unlimited) noexcept {
    if (!was_unlimited) counted.fetch_sub(bytes, std::memory_order_relaxed);
    const int64_t left = bytes_in_use.fetch_sub(bytes) - bytes;
    if (room_expected.load() && left < room_at.load(std::memory_order_relaxed) && room_expected.exchange(false)) {
      const std::lock_guard lock(room_mutex);
      if (room_made) room_made();
    }
  }

  std::array<HugePages, kClasses> huge_pages;  // by size class
  std::array<FreeList, kClasses> free_lists;
  std::atomic<int64_t> bytes_in_use{0};
  std::atomic<int64_t> peak{0};
  std::atomic<int64_t> bytes_held{0};  // in use or free
  std::atomic<int64_t> limit{INT64_MAX};
  std::atomic<int64_t> counted{0};  // of those in use: what is not unlimited
  std::atomic<int64_t> most_counted{INT64_MAX};
  std::atomic<int64_t> budget{INT64_MAX};
  std::atomic<int64_t> room_at{INT64_MAX};
  std::atomic<bool> room_expected{false};
  std::mutex room_mutex;  // taken only when somebody waits for room
  std::function<void()> room_made;
  std::atomic<int64_t> fresh_allocations{0};
};

void BufferBody::release() noexcept {
  // A buffer on the free list must not keep the pool alive.
  const std::shared_ptr<PoolState> pool = std::move(pool_);
  const auto bytes = static_cast<int64_t>(capacity_);
  const bool was_unlimited = is_unlimited_;
  if (!pool->keep(this)) pool->drop(this);
  pool->give_back_bytes(bytes, was_unlimited);
}

BufferPool::BufferPool() : state_(std::make_shared<BufferBody::PoolState>()) {}

Buffer BufferPool::allocate(size_t bytes) {
  const SizeClass wanted = size_class(bytes);
  if (wanted.index >= kClasses) throw std::bad_alloc();
  const auto capacity = static_cast<int64_t>(wanted.bytes);
  const bool is_unlimited = unlimited > 0;
  state_->take_bytes(capacity, is_unlimited);
  BufferBody* body = state_->take(wanted.index);
  if (body == nullptr) {
    if (state_->bytes_held.load(std::memory_order_relaxed) + capacity > state_->limit.load(std::memory_order_relaxed)) {
      state_->make_room(capacity);
    }
    try {
      body = state_->make(wanted);
    } catch (...) {
      state_->give_back_bytes(capacity, is_unlimited);
      throw;
    }
    state_->bytes_held.fetch_add(capacity, std::memory_order_relaxed);
    state_->fresh_allocations.fetch_add(1, std::memory_order_relaxed);
  }
  body->pool_ = state_;
  body->home_ = home_of_this_thread();
  body->is_unlimited_ = is_unlimited;
  return Buffer(body);
}

// Whoever gives it back does not know whether it was unlimited: it always counts.
void* BufferPool::take(size_t bytes) {
  const size_t size = size_to_map(bytes);
  const auto taken = static_cast<int64_t>(size);
  if (unlimited > 0) state_->counted.fetch_add(taken, std::memory_order_relaxed);
  state_->take_bytes(taken, unlimited > 0);
  // Among what is held before room is made for it: free buffers must not stay beside it.
  if (state_->bytes_held.fetch_add(taken) + taken > state_->limit.load(std::memory_order_relaxed)) {
    state_->make_room(0);
  }
  void* memory = size >= kMapped ? map_huge_pages(size) : ::operator new(size, std::nothrow);
  if (memory != nullptr) return memory;
  state_->bytes_held.fetch_sub(taken);
  state_->give_back_bytes(taken, /*was_unlimited=*/false);
  throw std::bad_alloc();
}

void BufferPool::give_back(void* memory, size_t bytes) noexcept {
  const size_t size = size_to_map(bytes);
  size >= kMapped ? static_cast<void>(::munmap(memory, size)) : ::operator delete(memory);
  state_->bytes_held.fetch_sub(static_cast<int64_t>(size));
  state_->give_back_bytes(static_cast<int64_t>(size), /*was_unlimited=*/false);
}

BufferPool::Unlimited::Unlimited() noexcept { ++unlimited; }

BufferPool::Unlimited::~Unlimited() { --unlimited; }

void BufferPool::set_limit(int64_t bytes, int64_t room_at, std::function<void()> room_made) {
  state_->limit.store(bytes);
  state_->room_at.store(room_at);
  const std::lock_guard lock(state_->room_mutex);
  state_->room_made = std::move(room_made);
}

void BufferPool::refuse_beyond(int64_t bytes, int64_t budget) {
  state_->most_counted.store(bytes);
  state_->budget.store(budget);
}

void BufferPool::expect_room() noexcept { state_->room_expected.store(true); }

int64_t BufferPool::peak_bytes_in_use() const { return state_->peak.load(std::memory_order_relaxed); }

int64_t BufferPool::bytes_in_use() const { return state_->bytes_in_use.load(); }

int64_t BufferPool::fresh_allocations() const { return state_->fresh_allocations.load(std::memory_order_relaxed); }

}  // namespace millrace
