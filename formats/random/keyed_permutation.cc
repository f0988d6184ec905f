#include "millrace/formats/random/keyed_permutation.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "millrace/formats/random/counter_rng.h"

namespace millrace {
namespace {

// Of fewer bits a network has so few permutations that not all orders of some numbers are among them. Of this many,
// cycle walking picks nearly uniform orders of any few numbers, at 1,024 evaluations in all.
constexpr int kLeastBits = 10;

// Two multiplications: with one, neighbouring positions stay related up to six rounds.
uint64_t round_function(uint64_t x, uint64_t key) {
  uint64_t z = (x ^ key) * 0xbf58476d1ce4e5b9;
  z ^= z >> 32;
  z *= 0x94d049bb133111eb;
  return z >> 32;
}

}  // namespace

KeyedPermutation::KeyedPermutation(uint64_t size, uint64_t seed, const Iteration& iteration, int rounds)
    : size_(size), rounds_(rounds) {
  assert(size <= uint64_t{1} << 62 && rounds >= 1 && rounds <= 16);
  const int bits = std::max(kLeastBits, static_cast<int>(std::bit_width(size - (size > 0 ? 1 : 0))));
  right_bits_ = bits - bits / 2;
  left_mask_ = (uint64_t{1} << (bits / 2)) - 1;
  right_mask_ = (uint64_t{1} << right_bits_) - 1;
  const CounterRng rng(seed, operator_id("global_shuffle"), iteration);
  for (int round = 0; round < rounds; ++round)
    keys_[static_cast<size_t>(round)] = rng.bits(static_cast<uint64_t>(round));
}

uint64_t KeyedPermutation::once(uint64_t number) const {
  uint64_t left = number >> right_bits_;
  uint64_t right = number & right_mask_;
  for (size_t round = 0; round < static_cast<size_t>(rounds_); ++round) {
    if (round % 2 == 0) {
      left ^= round_function(right, keys_[round]) & left_mask_;
    } else {
      right ^= round_function(left, keys_[round]) & right_mask_;
    }
  }
  return left << right_bits_ | right;
}

uint64_t KeyedPermutation::operator()(uint64_t position) const {
  assert(position < size_);
  do {
    position = once(position);
  } while (position >= size_);
  return position;
}

}  // namespace millrace
