#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "formats/columnar/column.h"
#include "formats/columnar/memory_gate.h"
#include "ops/job.h"
#include "ops/row_slab.h"

namespace millrace {

/// Raw records on their way into a slab: each has its slot at once, but its bytes are copied by jobs, one for each
/// block. Until then a row is where it came in, and can leave from there. One thread owns it.
///
///     begin_block ─► add, … ─► end_block ─► a job makes the copies
class ArrivingRows {
  class Source;
  class Copies;

 public:
  /// `job_runner`, `memory`: as in StageContext.
  ArrivingRows(RowSlab& slab, JobRunner* job_runner, MemoryGate* memory);
  ~ArrivingRows();

  /// Whether the rows of this block, which begins at row `first` of the stage's input, are copied later. Not those of
  /// large blocks, of blocks that keep much more memory than their rows have, nor while too many jobs wait or
  /// memory is short, since all that stays until then: where it is, the copies of the blocks before are made as well.
  [[nodiscard]] bool begin_block(const Column& records, int64_t first);
  /// A record of the block.
  [[nodiscard]] RowSlab::Slot add(std::string_view record);
  /// No more of them. Where no block was begun, nothing.
  void end_block();
  /// Lets go of the blocks whose rows are copied, and of what they came in; so does a block that begins.
  void forget_copied();

  /// A row that is still where it came in: there as long as `keeps`.
  struct Uncopied {
    std::string_view record;
    Ref<Resource> keeps;
  };
  /// Takes a row out, by its place in the stage's input: where to read it instead of in its slot, which goes back to
  /// the slab in time; nothing where it was copied, or was none of these.
  [[nodiscard]] bool take_uncopied(int64_t row, RowSlab::Slot slot, Uncopied& out);

 private:
  struct Arrived {
    int64_t first;
    int64_t count;
    Ref<Source> source;
    Ref<Copies> copies;
    std::vector<RowSlab::Slot> left;  // of rows that left before they were copied
  };

  void make_all();

  RowSlab& slab_;
  JobRunner* const job_runner_;
  MemoryGate* const memory_;
  std::deque<Arrived> arrived_;  // in the order of their rows
  bool open_ = false;            // the last one may become more
};

}  // namespace millrace
