#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace millrace::test {

/// Which allocations of a process are counted together.
enum class AllocationKind {
  kLarge,  ///< requests of a BufferPool, and everything of at least 4 KiB
  kSmall,  ///< the others
};

/// The allocations of a process since it called `fail_allocation`. In memory that it shares with its parent.
struct AllocationCounts {
  std::atomic<int64_t> large{0};
  std::atomic<int64_t> small{0};
  /// Where the one that failed was asked for, from the inside to the outside; nothing when none failed.
  std::array<void*, 48> failed_at{};
  std::atomic<int> num_frames{0};

  int64_t of(AllocationKind kind) const { return kind == AllocationKind::kLarge ? large : small; }
};

/// From now on this process counts its allocations of all threads: of malloc and its siblings, with which `new` is
/// made, of mmap where it gives fresh memory, and the calls of `BufferPool::allocate`. The `number`-th of `kind`, from
/// 1, finds no memory; 0: all find some. `and_later`: nor do those of this kind that follow.
void fail_allocation(AllocationCounts& counts, AllocationKind kind, int64_t number, bool and_later = false);

}  // namespace millrace::test
