#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/formats/columnar/column.h"
#include "millrace/ops/row_memory/row_slab.h"

namespace millrace {

/// Memory for the rows of a stage that keeps many of them and lets them go in any order (a shuffle). Whoever reads the
/// rows puts them there at once, while they are in its core's cache; the stage takes them out of their blocks without
/// touching their bytes, and lends them to the blocks that leave. Rows that nobody took are free again with the block
/// that they came in, so stages on the way may drop what they want.
///
///     source: hold_rows ─► blocks of views ─► stage: Claimer::take, … ─► Lease::add ─► the block that leaves holds the
///     loan
///
/// Any thread. A lock is held while the places of the rows of a whole block are looked for, not while they are copied.
class RowStore : public std::enable_shared_from_this<RowStore> {
  // What stands before each row.
  using Header = RowSlab::Slot;

  // The rows of one block of a source that are in the store, in their order.
  class StoredRows final : public Resource {
   public:
    StoredRows(std::shared_ptr<RowStore> store, std::vector<const char*> rows)
        : store_(std::move(store)), rows_(std::move(rows)) {}
    bool are_in(const RowStore* store) const { return store_.get() == store; }
    // False when this was said of the same block before.
    bool begin(uint64_t block) { return std::exchange(block_, block) != block; }
    // Takes one of the next rows after the last one that was taken.
    bool take(const char* row, size_t looked_at);

   private:
    void release() noexcept override;

    const std::shared_ptr<RowStore> store_;
    std::vector<const char*> rows_;  // null: taken
    size_t next_ = 0;
    uint64_t block_ = 0;  // of the taker
  };

 public:
  static constexpr size_t kHeaderBytes = sizeof(Header);  ///< that each row takes beside its own

  /// To be made with `std::make_shared`.
  explicit RowStore(BufferPool& pool) : slab_(pool) {}

  /// Bytes of the longest row that is put here. While it is copied there are two of each row; of rows that fit into the
  /// chunk of a read the memory budget has room for that, of longer ones it would know nothing before.
  static constexpr size_t kLongest = 256 << 10;

  /// Copies the rows of a `bytes` column, which has one writer, and lets it point to the copies and hold what they
  /// need. Those longer than `kLongest` stay in `read_to`, which the column holds then. Throws std::bad_alloc when the
  /// system has no memory.
  void put(Column& column, const Ref<Resource>& read_to);

  /// Rows that were taken and will not be lent. Allocates nothing; the cheaper the more there are.
  void give_back(std::span<const char* const> rows) noexcept;

  /// Takes rows out of one block after the other. The only one of its store; one thread.
  class Claimer {
   public:
    /// `store`: null: there is nothing to take.
    explicit Claimer(const RowStore* store) : store_(store) {}
    /// Goes on with a block, whose rows these are. They must stay until the last of them is taken.
    void begin_block(const Column& rows);
    /// What was not taken is the block's alone again. Without a block, nothing.
    void end_block() { origins_.clear(); }
    /// Whether rows of the block are in the store.
    bool may_take() const { return !origins_.empty(); }
    /// The row, in the order of the block, belongs to the caller from now on, who lends it. False where it is not in
    /// the store, or was not found soon among many that are not: then it stays the block's.
    [[nodiscard]] bool take(std::string_view row);

   private:
    struct Origin {
      Ref<StoredRows> arrivals;
      size_t then;  // in `origins_`: where the row after one of these was found the last time
    };

    const RowStore* const store_;
    uint64_t block_ = 0;  // its number, from 1
    std::vector<Origin> origins_;
    size_t last_ = 0;   // where the last row was found
    int searches_ = 0;  // of all rows of the block, that found nothing
  };

  /// Rows that were taken, for as long as a block points into them. One thread adds them.
  class Lease final : public Resource {
   public:
    explicit Lease(std::shared_ptr<RowStore> store) : store_(std::move(store)) { rows_.reserve(kExpectedRows); }
    void add(const char* row) { rows_.push_back(row); }

   private:
    static constexpr size_t kExpectedRows = 128;  // a vector that doubles from one row on allocates eight times
    void release() noexcept override;

    std::shared_ptr<RowStore> store_;
    std::vector<const char*> rows_;
  };

 private:
  std::mutex mutex_;
  RowSlab slab_;
};

/// Has a column hold the memory of its rows, which were read to `read_to`, or puts them into the store, if there is
/// one.
inline void hold_rows(Column& column, const Ref<Resource>& read_to, RowStore* store) {
  store == nullptr ? column.hold(read_to) : store->put(column, read_to);
}

}  // namespace millrace
