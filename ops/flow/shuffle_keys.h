#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "millrace/formats/random/counter_rng.h"

namespace millrace {

/// When each row of an iteration leaves a shuffle buffer of B rows: row i has the key max(i, B) + D(i), rows leave in
/// order of key (of equal ones the earlier row first), and every row whose key is below the number of rows read so far
/// has left. D(i) is drawn from an exponential distribution cut off at 4.875 B, by (seed, iteration, i) alone, so which
/// row leaves next can be computed again from any place: a resumed run reads at most the last five buffers of rows
/// again, or a block more. For the first B rows, which all count from B, it is cut off at 3.875 B, so that these wait
/// no longer either.
///
/// The mean of the uncut distribution is max(1.01 B, 1.04 B - 2 √B): with it about as many rows are held as a buffer of
/// B rows has room for, and rows move nearly as far as in one from which a uniform pick leaves at each step
/// (tests/ops/flow/shuffle_keys_test.cc has the table). With B = 1 nothing moves.
///
/// Keys are fixed-point numbers of `kFractionBits` bits after the point, made by integer arithmetic only: the same on
/// every machine. The iteration's epoch is left out where each is to have the same order. `occurrence`: as of
/// `operator_id`.
class ShuffleKeys {
 public:
  static constexpr int kFractionBits = 24;
  /// Larger buffers are treated as this many rows, which no memory holds.
  static constexpr int64_t kLargestBuffer = int64_t{1} << 36;

  ShuffleKeys(int64_t buffer_size, uint64_t seed, Iteration iteration, bool reshuffle_each_iteration,
              uint64_t occurrence = 0);

  uint64_t key(int64_t row) const { return key_of(row, rng_.bits(static_cast<uint64_t>(row))); }
  /// The keys of neighbouring rows, many at once: `keys[i] = key(first_row + i)`.
  void keys(int64_t first_row, std::span<uint64_t> keys) const;
  /// Every row before this one has left when those with keys below `key` have.
  int64_t first_row_left(uint64_t key) const {
    return std::max<int64_t>(0, static_cast<int64_t>(key >> kFractionBits) - longest_wait());
  }
  int64_t buffer_size() const { return buffer_size_; }
  /// The most rows after it that leave before it.
  int64_t longest_wait() const { return 5 * buffer_size_ - buffer_size_ / 8; }

  /// -ln((bits | 1) / 2^64) with 32 bits after the point, within 2e-7.
  static uint64_t negative_log(uint64_t bits);

 private:
  uint64_t key_of(int64_t row, uint64_t random_bits) const;

  int64_t buffer_size_;
  uint64_t mean_;  // 16 bits after the point
  CounterRng rng_;
};

}  // namespace millrace
