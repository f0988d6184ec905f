#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "millrace/formats/columnar/buffer.h"

namespace millrace {

/// The bytes that a pipeline's buffers may take, and who waits for some of them. All memory of a pipeline that grows
/// with the data comes from its BufferPool: chunks of files, blocks, the rows of a shuffle, batches in rings and with
/// the consumer; so the budget looks at the pool, and there are no ledgers that could disagree with it.
///
/// Work that runs ahead starts only while there is room. Work that the consumer waits for always starts: a segment
/// whose reader has found nothing and that holds no block itself. So the budget bounds how far anything runs ahead and
/// never deadlocks; near its end a pipeline goes block by block. What goes beyond it by a tenth and 48 MiB all the
/// same, since something is larger than anybody knew, is refused (`BufferPool::refuse_beyond`).
class MemoryBudget {
 public:
  /// `bytes`: at least 1.
  MemoryBudget(BufferPool& pool, int64_t bytes);
  ~MemoryBudget();
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  int64_t bytes() const { return bytes_; }
  /// Whether work that runs ahead may take `bytes` now.
  bool has_room(int64_t bytes) const noexcept;
  /// The same, and keeps them for the caller until `taken`.
  bool reserve(int64_t bytes) noexcept;
  /// Keeps them whether there is room or not.
  void reserve_anyway(int64_t bytes) noexcept { reserved_.fetch_add(bytes); }
  void taken(int64_t bytes) noexcept { reserved_.fetch_sub(bytes); }

  /// Somebody who may wait for room.
  class Waiter {
   public:
    /// There is room. Any thread; must not block.
    virtual void room_made() noexcept = 0;

   protected:
    ~Waiter() = default;
  };
  /// Before any work starts. `waiter` must stay until `close`.
  void add_waiter(Waiter& waiter) { waiters_.push_back(&waiter); }
  /// From now on somebody waits: the next buffer that makes room tells all. Look for room once more after it.
  void expect_room() noexcept { pool_.expect_room(); }
  /// Nobody is woken any more when this returns.
  void close();

 private:
  const int64_t bytes_;
  const int64_t for_running_ahead_;
  BufferPool& pool_;
  std::atomic<int64_t> reserved_{0};
  std::vector<Waiter*> waiters_;
};

/// The bytes of `StartOptions::memory_budget`: 0 stands for half of the memory of the machine, or of the control group
/// that the process is in. Throws `kInvalidArgument` below 1 MiB.
[[nodiscard]] int64_t checked_memory_budget(int64_t bytes);

}  // namespace millrace
