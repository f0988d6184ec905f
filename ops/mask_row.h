#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace {

/// What decides the fate of a position, see MaskTokensOperator. Bounds on its random word, up to 2^32: below
/// `mask_below` it is masked, below `random_below` it becomes a random id, below `chosen_below` it stays but has a
/// label.
struct MaskRule {
  uint64_t mask_below = 0;
  uint64_t random_below = 0;
  uint64_t chosen_below = 0;
  int32_t mask_token = 0;
  std::span<const int32_t> special_tokens;
};

/// Masks one row of `length` positions with the widest instructions of the machine. `attention` (or null) is 0 where
/// there is no token; `words` holds one random word for each position. Writes `ids`, which may be `original`, and
/// `labels`, and to `random_positions` (room for `length` + 16) the positions whose ids the caller has yet to draw;
/// returns how many these are.
size_t mask_row(const MaskRule& rule, const int32_t* original, const int64_t* attention, const uint32_t* words,
                size_t length, int32_t* ids, int32_t* labels, uint32_t* random_positions);

/// The same for int64 ids.
size_t mask_row(const MaskRule& rule, const int64_t* original, const int64_t* attention, const uint32_t* words,
                size_t length, int64_t* ids, int64_t* labels, uint32_t* random_positions);

}  // namespace millrace
