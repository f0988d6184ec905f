#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

#include <Random123/philox.h>

#include "millrace/formats/columnar/iteration.h"

namespace millrace {

/// The id that keeps the random numbers of one operator apart from those of any other with the same seed: the 64-bit
/// FNV-1a hash of the operator's name, and of its `occurrence` (how many of its kind stand before it in the pipeline)
/// as eight bytes, low byte first, where that is not 0.
constexpr uint64_t operator_id(std::string_view name, uint64_t occurrence = 0) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&hash](uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3u; };
  for (const char c : name) add(static_cast<uint8_t>(c));
  for (int byte = 0; occurrence != 0 && byte < 8; ++byte) add(static_cast<uint8_t>(occurrence >> (8 * byte)));
  return hash;
}

/// Random numbers as a pure function of who asks for what: Philox4x32-10 (Salmon et al., "Parallel random numbers: as
/// easy as 1, 2, 3", SC 2011; Random123). There is no state, so any thread may compute any of them in any order, and a
/// resumed run draws what it would have drawn.
///
///     const CounterRng rng(options.seed, operator_id("mask_tokens"), block.iteration);
///     const std::array<uint32_t, 4> words = rng.words(row, draw);
///
/// The mapping, which checkpoints rely on and tests pin. P(counter, key) is Philox4x32-10; 64-bit numbers take two
/// words, low word first:
///
///     stream = first two words of P({operator, 0}, seed)
///     key    = first two words of P({epoch, path}, stream)
///     words(ordinal, draw) = P({ordinal, draw}, key)
class CounterRng {
 public:
  using Words = std::array<uint32_t, 4>;

  CounterRng(uint64_t seed, uint64_t operator_id, const Iteration& iteration = {}) {
    const Words stream = philox(operator_id, 0, {low(seed), high(seed)});
    const Words key = philox(static_cast<uint64_t>(iteration.epoch), iteration.path, {stream[0], stream[1]});
    key_ = {key[0], key[1]};
  }

  /// Four random words for a row: `draw` counts the row's draws from 0.
  Words words(uint64_t ordinal, uint64_t draw = 0) const { return philox(ordinal, draw, key_); }
  /// 64 random bits for a row.
  uint64_t bits(uint64_t ordinal, uint64_t draw = 0) const {
    const Words random = words(ordinal, draw);
    return random[0] | static_cast<uint64_t>(random[1]) << 32;
  }
  /// The Philox key, for loops that compute `words` of many counters at once.
  const std::array<uint32_t, 2>& key() const { return key_; }

  static Words philox(uint64_t counter_low, uint64_t counter_high, const std::array<uint32_t, 2>& key) {
    const philox4x32_ctr_t counter = {{low(counter_low), high(counter_low), low(counter_high), high(counter_high)}};
    const philox4x32_key_t philox_key = {{key[0], key[1]}};
    const philox4x32_ctr_t random = philox4x32_R(10, counter, philox_key);
    return {random.v[0], random.v[1], random.v[2], random.v[3]};
  }

 private:
  static constexpr uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
  static constexpr uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

  std::array<uint32_t, 2> key_;
};

/// A uniform integer in [0, n) from 32 random bits, by a fixed-point multiply. Each result's probability differs from
/// 1/n by less than 2^-32.
constexpr uint32_t uniform_below(uint32_t random, uint32_t n) {
  return static_cast<uint32_t>(static_cast<uint64_t>(random) * n >> 32);
}

/// A uniform integer in [0, n) from 64 random bits; each result's probability differs from 1/n by less than 2^-64.
constexpr uint64_t uniform_below(uint64_t random, uint64_t n) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(static_cast<Wide>(random) * n >> 64);
}

/// How many of the 2^32 values of a random word lie below `probability` in [0, 1]: a word chooses when it is smaller
/// than this. Rounded to nearest, so the chance is off by at most 2^-33; 1 gives 2^32, which every word is below.
inline uint64_t chance(double probability) { return static_cast<uint64_t>(std::llround(probability * 4294967296.0)); }

}  // namespace millrace
