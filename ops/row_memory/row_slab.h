#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "millrace/formats/columnar/buffer.h"
#include "millrace/formats/columnar/prefetch_lines.h"

namespace millrace {

/// Memory for many rows that come and go in any order: slots of 64 bytes to 32 KiB in size classes, eight to each power
/// of two, in chunks that go back to the pool when they are empty; a larger row has a buffer of its own. One thread
/// owns the slab, or several behind a lock. Rows can be lent to blocks: when the last block that needs them is gone, on
/// whichever thread, they come back with one push, without a lock. Lent rows outlive the slab.
class RowSlab {
  struct Shared;

 public:
  static constexpr int kSmallest = 64;  ///< bytes that a slot has at least
  /// Slots of at least this many bytes start and end at the borders of cache lines.
  static constexpr size_t kWholeLines = 512;

  struct Slot {
    uint32_t chunk = 0;
    uint32_t index = 0;
  };

  /// Rows that some block points into. The owner adds them while it builds the block.
  class Lease final : public Resource {
   public:
    void add(Slot slot) { slots_.push_back(slot); }

   private:
    friend class RowSlab;
    friend struct Shared;
    void release() noexcept override;

    std::shared_ptr<Shared> shared_;
    std::vector<Slot> slots_;
    Lease* next_ = nullptr;
  };

  explicit RowSlab(BufferPool& pool);
  ~RowSlab();
  RowSlab(const RowSlab&) = delete;
  RowSlab& operator=(const RowSlab&) = delete;

  [[nodiscard]] Slot allocate(size_t bytes);
  std::byte* data(Slot slot) const {
    const Chunk& chunk = chunks()[slot.chunk];
    return chunk.data + static_cast<size_t>(slot.index) * chunk.slot_bytes;
  }
  void free(Slot slot) noexcept;

  [[nodiscard]] Ref<Lease> lend();
  /// Takes back what blocks have released since the last call. `allocate` does so before it takes fresh memory.
  void collect();
  /// Memory of the slab, free slots included.
  int64_t bytes() const { return bytes_; }

 private:
  struct Chunk {
    Buffer buffer;
    std::byte* data = nullptr;
    size_t slot_bytes = 0;
    uint32_t num_slots = 0;
    uint32_t num_fresh = 0;      // slots never used yet, at the end
    std::vector<uint32_t> free;  // slots that came back
    uint32_t place = 0;          // in the list of its class, while it has room
    int size_class = 0;
    uint32_t room() const { return num_fresh + static_cast<uint32_t>(free.size()); }
  };
  struct SizeClass {
    std::vector<uint32_t> with_room;
    size_t num_slots = 0;
  };
  // What loans need after the slab is gone: the memory, and where to put themselves.
  struct Shared {
    ~Shared();
    std::vector<Chunk> chunks;
    std::atomic<Lease*> returned{nullptr};
  };

  const std::vector<Chunk>& chunks() const { return shared_->chunks; }
  void add_chunk(int size_class, size_t slot_bytes);
  void remove_chunk(uint32_t id) noexcept;
  void forget_room(uint32_t id) noexcept;

  // 64 B to 32 KiB are 9 doublings.
  static constexpr int kStepsPerDoubling = 8;
  static constexpr size_t kLargest = 32 << 10;
  static constexpr int kOwnBuffer = 9 * kStepsPerDoubling + 1;
  static_assert(kWholeLines % (kStepsPerDoubling * kCacheLine) == 0);

  BufferPool& pool_;
  std::shared_ptr<Shared> shared_;
  std::array<SizeClass, kOwnBuffer + 1> classes_;
  std::vector<uint32_t> unused_chunks_;
  std::vector<std::unique_ptr<Lease, void (*)(Lease*)>> unused_loans_;
  int64_t bytes_ = 0;
};

}  // namespace millrace
