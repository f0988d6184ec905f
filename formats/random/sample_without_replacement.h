#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "millrace/formats/random/counter_rng.h"

namespace millrace {

/// Chooses `count` of `num_places` places, every choice alike, and calls `taken(place)` for each of them in order: so
/// many of so many (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S). `words`: a random word for each
/// place.
template <typename Taken>
void sample_without_replacement(std::span<const uint32_t> words, size_t num_places, size_t count, Taken&& taken) {
  for (size_t place = 0; count > 0; ++place) {
    if (uniform_below(words[place], static_cast<uint32_t>(num_places - place)) >= count) continue;
    taken(place);
    --count;
  }
}

}  // namespace millrace
