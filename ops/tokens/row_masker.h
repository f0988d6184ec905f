#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/formats/columnar/counted_allocator.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/formats/random/philox_words.h"
#include "millrace/ops/tokens/mask_row.h"

namespace millrace {

/// The first draw of a row that gives random ids, one for each position; the draws below choose positions.
constexpr uint64_t kRandomIdDraws = uint64_t{1} << 32;

/// The id that a random word stands for.
template <typename Id>
Id random_id(const MaskRule& rule, uint32_t word) {
  return static_cast<Id>(uniform_below(word, rule.vocab_size));
}

/// A row of ids to be masked, and where to.
template <typename Id>
struct RowToMask {
  uint64_t number;  ///< by which it draws, see `row_number`
  std::span<const Id> original;
  const int64_t* attention;  ///< 0 where there is no token; or null
  Id* ids;                   ///< may be `original`
  Id* labels;
};

/// Masks rows of any lengths, each position by itself as MaskTokensOperator says. The random ids of some rows are drawn
/// together, which fills vectors, and when the last of them is masked: what was just stored is read back slowly. Until
/// then the ids are those of before, for good where `finish` is not called. `Id` is int32_t or int64_t. For one thread.
///
///     RowMasker<int32_t> masker(rule, rng, memory);
///     for (const RowToMask<int32_t>& row : rows) masker.mask(row);
///     masker.finish();
template <typename Id>
class RowMasker {
 public:
  /// What one RowMasker may leave to the next.
  class Memory {
   public:
    /// Where it comes from, where rows are long. Must outlive it.
    explicit Memory(BufferPool& pool)
        : words_(CountedAllocator<uint32_t>(pool)),
          drawn_(CountedAllocator<uint8_t>(pool)),
          positions_(CountedAllocator<uint32_t>(pool)),
          draws_(CountedAllocator<Draw>(pool)) {}

   private:
    friend class RowMasker;
    struct Row {
      uint64_t number;
      Id* ids;
      size_t drawn_end;  // of its part of `drawn_`
      size_t draws_end;  // of its part of `draws_`
    };
    CountedVector<uint32_t> words_;
    std::vector<Row> rows_;         // that lack their random ids
    CountedVector<uint8_t> drawn_;  // as of mask_row, of one row after the other
    CountedVector<uint32_t> positions_;
    CountedVector<Draw> draws_;
  };

  /// `rule`, `rng` and `memory` must outlive it.
  RowMasker(const MaskRule& rule, const CounterRng& rng, Memory& memory) : rule_(rule), rng_(rng), memory_(memory) {
    forget_rows();  // as of one whose work ended with an exception
  }

  /// `row.ids` must stay in place until `finish`: later calls may write there.
  void mask(const RowToMask<Id>& row);
  /// To be called after the last row.
  void finish();

 private:
  void forget_rows() {
    memory_.rows_.clear();
    memory_.drawn_.clear();
  }

  const MaskRule& rule_;
  const CounterRng& rng_;
  Memory& memory_;
};

}  // namespace millrace
