#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "millrace/formats/random/counter_rng.h"

namespace millrace {

/// The words of `num_draws` draws of one row, from draw 0 on: `words[4 * draw + i] = rng.words(ordinal, draw)[i]`,
/// computed many at once with the widest instructions of the machine. `words` has room for 4 * num_draws.
void philox_words(const CounterRng& rng, uint64_t ordinal, size_t num_draws, std::span<uint32_t> words);

/// A draw of a row.
struct Draw {
  uint64_t ordinal;
  uint64_t draw;
};

/// The first words of any draws, in the same way: `words[i] = rng.words(draws[i].ordinal, draws[i].draw)[0]`.
void philox_first_words(const CounterRng& rng, std::span<const Draw> draws, std::span<uint32_t> words);

/// 64 bits for each of some neighbouring rows, in the same way: `bits[i] = rng.bits(first_ordinal + i)`.
void philox_bits(const CounterRng& rng, uint64_t first_ordinal, std::span<uint64_t> bits);

}  // namespace millrace
