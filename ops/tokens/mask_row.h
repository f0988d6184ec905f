#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace {

/// What decides the fate of a position, see MaskTokensOperator. Bounds on its random word, up to 2^32: below
/// `mask_below` it is masked, below `random_below` it becomes a random id, below `chosen_below` it stays but has a
/// label. Random ids are below `vocab_size`.
struct MaskRule {
  uint64_t mask_below = 0;
  uint64_t random_below = 0;
  uint64_t chosen_below = 0;
  int32_t mask_token = 0;
  uint32_t vocab_size = 0;
  std::span<const int32_t> special_tokens = {};
};

/// How many bytes `drawn` of `mask_row` has for a row of `length` positions.
constexpr size_t drawn_bytes(size_t length) { return (length + 63) / 64 * 8; }

/// Masks one row of `length` positions with the widest instructions of the machine. `attention` (or null) is 0 where
/// there is no token; `words` holds one random word for each position. Writes `ids`, which may be `original`, and
/// `labels`, and `drawn` (`drawn_bytes(length)` bytes): bit p % 8 of byte p / 8 is 1 where the caller has yet to draw
/// the id of position p, the others are 0.
void mask_row(const MaskRule& rule, const int32_t* original, const int64_t* attention, const uint32_t* words,
              size_t length, int32_t* ids, int32_t* labels, std::span<uint8_t> drawn);

/// The same for int64 ids.
void mask_row(const MaskRule& rule, const int64_t* original, const int64_t* attention, const uint32_t* words,
              size_t length, int64_t* ids, int64_t* labels, std::span<uint8_t> drawn);

/// Writes the positions of the ones in `drawn` to `positions`, in order, and returns how many there are; there must be
/// room for 4 more. What `mask_row` has just written is read back slowly: list a row when others have been masked.
size_t list_drawn(std::span<const uint8_t> drawn, uint32_t* positions);

}  // namespace millrace
