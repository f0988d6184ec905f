#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "formats/columnar/column.h"
#include "formats/columnar/memory_gate.h"
#include "ops/row_slab.h"

namespace millrace {

/// Raw records on their way into a slab: each has its slot at once, but its bytes are copied by whoever works on the
/// blocks that leave the stage meanwhile, many at a time and beside the stage. Until then a row is where it came in,
/// and can leave from there. One thread owns it; copies are made by any.
///
///     begin_block ─► add, … ─► end_block ─► give_errands (into a block that leaves) ─► a body lets go of it: the
///     copies are made
class ArrivingRows {
  class Source;
  class Copies;

 public:
  /// `most_blocks`: of so many blocks, and about one more, rows wait to be copied; 0: nobody copies rows. `memory`: as
  /// in StageContext.
  ArrivingRows(RowSlab& slab, size_t most_blocks, MemoryGate* memory);
  ~ArrivingRows();

  /// Whether the rows of this block, which begins at row `first` of the stage's input, are copied later. Not those of
  /// large blocks, of blocks that keep much more memory than their rows have, nor where memory is short, since all that
  /// stays until then: where it is, the copies of the blocks before are made as well.
  [[nodiscard]] bool begin_block(const Column& records, int64_t first);
  /// A record of the block.
  [[nodiscard]] RowSlab::Slot add(std::string_view record);
  /// No more of them.
  void end_block() { open_ = false; }

  /// A row that is still where it came in: there as long as `keeps`.
  struct Uncopied {
    std::string_view record;
    Ref<Resource> keeps;
  };
  /// Takes a row out, by its place in the stage's input: where to read it instead of in its slot, which goes back to
  /// the slab in time; nothing where it was copied, or was none of these.
  [[nodiscard]] bool take_uncopied(int64_t row, RowSlab::Slot slot, Uncopied& out);

  /// The copies of all blocks that ended are made when `leaving` is let go.
  void give_errands(ColumnBuilder& leaving);
  /// Makes those that nobody has been given.
  void make_copies();

 private:
  struct Arrived {
    int64_t first;
    int64_t count;
    Ref<Source> source;
    Ref<Copies> copies;
    std::vector<RowSlab::Slot> left;  // of rows that left before they were copied
    bool given = false;
  };

  void make_all();
  void forget_copied();

  RowSlab& slab_;
  const size_t most_blocks_;
  MemoryGate* const memory_;
  std::deque<Arrived> arrived_;  // in the order of their rows
  bool open_ = false;            // the last one may become more
};

}  // namespace millrace
