#include "millrace/ops/flow/shuffle_keys.h"

#include <algorithm>
#include <array>
#include <bit>

#include "millrace/formats/random/philox_words.h"

namespace millrace {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr int kTableBits = 10;

// ln(1 + k / 1024) with 32 bits after the point: the binary digits of the logarithm to base 2 by squaring, then times
// ln 2. Computed by the compiler with integers, so no two machines differ.
constexpr std::array<uint64_t, (1 << kTableBits) + 1> logarithms() {
  constexpr uint64_t kLn2 = 0xb17217f7d1cf79ab;  // 64 bits after the point
  std::array<uint64_t, (1 << kTableBits) + 1> table{};
  for (uint64_t k = 0; k < (1 << kTableBits); ++k) {
    uint64_t y = ((uint64_t{1} << kTableBits) + k) << (62 - kTableBits);  // in [1, 2), 62 bits after the point
    uint64_t log2 = 0;
    for (int digit = 0; digit < 48; ++digit) {
      y = static_cast<uint64_t>((static_cast<Wide>(y) * y) >> 62);
      log2 <<= 1;
      if (y >= uint64_t{1} << 63) {
        log2 |= 1;
        y >>= 1;
      }
    }
    table[k] = static_cast<uint64_t>((static_cast<Wide>(log2) * kLn2) >> (64 + 48 - 32));
  }
  table[1 << kTableBits] = kLn2 >> 32;
  return table;
}

constexpr std::array<uint64_t, (1 << kTableBits) + 1> kLogarithms = logarithms();

uint64_t floor_of_root(uint64_t square) {
  uint64_t root = 0;
  for (uint64_t bit = uint64_t{1} << 31; bit > 0; bit >>= 1) {
    if ((root | bit) * (root | bit) <= square) root |= bit;
  }
  return root;
}

uint64_t mean_of(int64_t buffer_size) {
  if (buffer_size == 1) return 0;
  const auto rows = static_cast<uint64_t>(buffer_size);
  const uint64_t less = (floor_of_root(rows) << 16) * 2;
  return std::max(66191 * rows, 68157 * rows - less);  // 1.01 and 1.04, 16 bits after the point
}

}  // namespace

ShuffleKeys::ShuffleKeys(int64_t buffer_size, uint64_t seed, Iteration iteration, bool reshuffle_each_iteration,
                         uint64_t occurrence)
    : buffer_size_(std::min(buffer_size, kLargestBuffer)),
      mean_(mean_of(buffer_size_)),
      rng_(seed, operator_id("shuffle", occurrence), {reshuffle_each_iteration ? iteration.epoch : 0, iteration.path}) {
}

uint64_t ShuffleKeys::negative_log(uint64_t bits) {
  bits |= 1;
  const int zeros = std::countl_zero(bits);
  const uint64_t fraction = (bits << zeros) << 1;  // of the leading digits 1.xxx
  const uint64_t k = fraction >> (64 - kTableBits);
  const uint64_t between = (fraction << kTableBits) >> 32;
  const uint64_t log = kLogarithms[k] + (((kLogarithms[k + 1] - kLogarithms[k]) * between) >> 32);
  return static_cast<uint64_t>(zeros + 1) * kLogarithms[1 << kTableBits] - log;
}

void ShuffleKeys::keys(int64_t first_row, std::span<uint64_t> keys) const {
  philox_bits(rng_, static_cast<uint64_t>(first_row), keys);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = key_of(first_row + static_cast<int64_t>(i), keys[i]);
}

uint64_t ShuffleKeys::key_of(int64_t row, uint64_t random_bits) const {
  // 16 + 32 bits after the point. An exponential number beyond a limit is, less the limit, again an exponential
  // number: the remainder has exactly the distribution that is cut off there.
  Wide distance = static_cast<Wide>(mean_) * negative_log(random_bits);
  const Wide limit = static_cast<Wide>(longest_wait() - (row < buffer_size_ ? buffer_size_ : 0)) << 48;
  if (distance >= limit) [[unlikely]] {
    distance %= limit;
  }
  return (static_cast<uint64_t>(std::max(row, buffer_size_)) << kFractionBits) +
         static_cast<uint64_t>(distance >> (48 - kFractionBits));
}

}  // namespace millrace
