#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "millrace/formats/columnar/iteration.h"

namespace millrace {

/// An order of the numbers 0 to `size` - 1 as a pure function of seed and iteration: position i holds number
/// `permutation(i)`, each number once. Nothing is stored, so any position is computed by itself, on any thread.
///
///     const KeyedPermutation order(indexes.num_records(), options.seed, context.iteration);
///     read(order(position));
///
/// An alternating Feistel network (Luby and Rackoff, "How to construct pseudorandom permutations from pseudorandom
/// functions", SIAM J. Comput. 17, 1988) permutes the numbers of as many bits as `size` needs, ten at least; a result
/// that is too large goes through it again until one is not (Black and Rogaway, "Ciphers with arbitrary finite
/// domains", CT-RSA 2002), less than twice on average where `size` is over 512. The keys of the rounds come from
/// CounterRng. Statistically like a uniform permutation, not against an adversary: docs/decisions/global_shuffle.md.
///
/// The mapping, which checkpoints rely on and tests pin. With b bits, of which the b / 2 upper ones are `left` and the
/// others `right`, round r of 8 is `left ^= f(right, key[r])` for even r, `right ^= f(left, key[r])` for odd r, cut to
/// its bits; `key[r]` is CounterRng(seed, operator_id("global_shuffle"), iteration).bits(r), and f(x, key) the upper 32
/// bits of what z = (x ^ key) * 0xbf58476d1ce4e5b9, z ^= z >> 32, z *= 0x94d049bb133111eb gives (modulo 2^64).
class KeyedPermutation {
 public:
  static constexpr int kRounds = 8;

  /// `size`: at most 2^62. `rounds`: 1 to 16; others than the default are for tests of how many are enough.
  KeyedPermutation(uint64_t size, uint64_t seed, const Iteration& iteration = {}, int rounds = kRounds);

  uint64_t size() const { return size_; }
  /// The number at a position below `size()`.
  uint64_t operator()(uint64_t position) const;

 private:
  uint64_t once(uint64_t number) const;

  uint64_t size_;
  int rounds_;
  int right_bits_;
  uint64_t left_mask_;
  uint64_t right_mask_;
  std::array<uint64_t, 16> keys_{};
};

}  // namespace millrace
