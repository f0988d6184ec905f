#include "millrace/ops/flow/shuffle_keys.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace millrace::shuffle_keys_test {
namespace {

// The order in which `rows` rows leave, and how many are held when so many have been read.
struct Order {
  std::vector<int64_t> rows;
  double mean_held = 0;
  int64_t most_held = 0;
};

Order keyed_order(int64_t num_rows, int64_t buffer_size, uint64_t seed) {
  const ShuffleKeys keys(buffer_size, seed, {}, true);
  std::vector<std::pair<uint64_t, int64_t>> sorted;
  for (int64_t row = 0; row < num_rows; ++row) sorted.emplace_back(keys.key(row), row);
  std::sort(sorted.begin(), sorted.end());
  Order order;
  int64_t left = 0;
  int64_t counted = 0;
  for (int64_t read = 1; read <= num_rows; ++read) {
    while (left < num_rows && sorted[static_cast<size_t>(left)].first < static_cast<uint64_t>(read)
                                                                            << ShuffleKeys::kFractionBits) {
      ++left;
    }
    order.most_held = std::max(order.most_held, read - left);
    if (read > 6 * buffer_size) {
      order.mean_held += static_cast<double>(read - left);
      ++counted;
    }
  }
  order.mean_held /= static_cast<double>(std::max<int64_t>(counted, 1));
  for (const auto& [key, row] : sorted) order.rows.push_back(row);
  return order;
}

// A buffer from which a uniform pick leaves for each row that comes.
std::vector<int64_t> reservoir_order(int64_t num_rows, int64_t buffer_size, uint64_t seed) {
  const CounterRng rng(seed, operator_id("reservoir"));
  std::vector<int64_t> buffer;
  std::vector<int64_t> order;
  for (int64_t row = 0; row < num_rows; ++row) {
    if (row < buffer_size) {
      buffer.push_back(row);
      continue;
    }
    const uint64_t pick = uniform_below(rng.bits(static_cast<uint64_t>(row)), static_cast<uint64_t>(buffer_size));
    order.push_back(std::exchange(buffer[pick], row));
  }
  return order;
}

struct Quality {
  double spread;      // standard deviation of the displacement, in buffers
  double neighbours;  // share of neighbours that were within a tenth of a buffer
  double shards;      // distinct shards in a batch of 128, of shards a twentieth of a buffer long
};

Quality quality_of(const std::vector<int64_t>& order, int64_t buffer_size) {
  const auto b = static_cast<size_t>(buffer_size);
  const size_t begin = 6 * b;
  const size_t end = order.size() - 6 * b;
  double sum = 0;
  double squares = 0;
  double near = 0;
  double batches = 0;
  double shards = 0;
  for (size_t i = begin; i < end; ++i) {
    const auto displacement = static_cast<double>(order[i]) - static_cast<double>(i);
    sum += displacement;
    squares += displacement * displacement;
    near += std::abs(order[i + 1] - order[i]) <= buffer_size / 10 ? 1 : 0;
    if ((i - begin) % 128 == 0) {
      std::set<int64_t> distinct;
      for (size_t k = i; k < i + 128; ++k) distinct.insert(order[k] / (buffer_size / 20));
      shards += static_cast<double>(distinct.size());
      ++batches;
    }
  }
  const auto count = static_cast<double>(end - begin);
  return {std::sqrt(squares / count - sum / count * (sum / count)) / static_cast<double>(buffer_size), near / count,
          shards / batches};
}

TEST(ShuffleKeysTest, MixesNearlyAsWellAsAReservoirOfTheSameSize) {
  fmt::print(
      "rows in the buffer | spread of displacement | neighbours within B/10 | shards per batch | held: mean, most\n");
  for (const int64_t buffer_size : {1000, 16384}) {
    const int64_t num_rows = 40 * std::max<int64_t>(buffer_size, 4000);
    const Order keyed = keyed_order(num_rows, buffer_size, 42);
    const Quality ours = quality_of(keyed.rows, buffer_size);
    const Quality reservoir = quality_of(reservoir_order(num_rows, buffer_size, 42), buffer_size);
    fmt::print(
        "B = {:6} keyed     | {:.3f}                  | {:.4f}                 | {:.2f}            | {:.3f} B, {:.3f} "
        "B\n",
        buffer_size, ours.spread, ours.neighbours, ours.shards, keyed.mean_held / static_cast<double>(buffer_size),
        static_cast<double>(keyed.most_held) / static_cast<double>(buffer_size));
    fmt::print("B = {:6} reservoir | {:.3f}                  | {:.4f}                 | {:.2f}            | 1, 1\n",
               buffer_size, reservoir.spread, reservoir.neighbours, reservoir.shards);
    EXPECT_GE(ours.spread, 0.9 * reservoir.spread);
    EXPECT_LE(ours.neighbours, 1.1 * reservoir.neighbours);
    EXPECT_GE(ours.shards, 0.95 * reservoir.shards);
    EXPECT_LE(keyed.mean_held, 1.0 * static_cast<double>(buffer_size));
    const double root = std::sqrt(static_cast<double>(buffer_size));
    EXPECT_LE(static_cast<double>(keyed.most_held), static_cast<double>(buffer_size) + 2.5 * root);
  }
}

TEST(ShuffleKeysTest, RowsThatFitTheBufferFormAUniformPermutation) {
  // Chi-square over the 120 orders of 5 rows in 12,000 iterations: 119 degrees of freedom, 186 is exceeded with
  // probability 1e-4. The numbers drawn are fixed, so this passes always or never.
  std::map<std::vector<int64_t>, int> counts;
  for (int64_t epoch = 0; epoch < 12000; ++epoch) {
    const ShuffleKeys keys(8, 5, {.epoch = epoch, .path = 0}, true);
    std::vector<int64_t> rows(5);
    std::iota(rows.begin(), rows.end(), 0);
    std::sort(rows.begin(), rows.end(), [&](int64_t a, int64_t b) { return keys.key(a) < keys.key(b); });
    ++counts[rows];
  }
  EXPECT_EQ(counts.size(), 120u);
  double chi_square = 0;
  for (const auto& [order, count] : counts) chi_square += (count - 100.0) * (count - 100.0) / 100.0;
  EXPECT_LT(chi_square, 186.0);
  EXPECT_GT(chi_square, 65.0) << "more even than chance (probability 1e-4)";
}

TEST(ShuffleKeysTest, NoRowWaitsLongerThanFiveBuffers) {
  const ShuffleKeys keys(50, 1, {}, true);
  for (int64_t row = 0; row < 100000; ++row) {
    const uint64_t key = keys.key(row);
    ASSERT_GE(key >> ShuffleKeys::kFractionBits, static_cast<uint64_t>(std::max<int64_t>(row, 50)));
    ASSERT_LT(key >> ShuffleKeys::kFractionBits,
              static_cast<uint64_t>(std::max<int64_t>(row, 50) + (row < 50 ? 194 : 244)));
    ASSERT_LE(keys.first_row_left(key), row);
  }
}

TEST(ShuffleKeysTest, ABufferOfOneMovesNothing) {
  const Order order = keyed_order(1000, 1, 3);
  EXPECT_TRUE(std::is_sorted(order.rows.begin(), order.rows.end()));
}

TEST(ShuffleKeysTest, KeysOfManyRowsAreThoseOfEach) {
  const ShuffleKeys keys(50, 1, {.epoch = 3, .path = 0}, true);
  for (const int64_t first : {int64_t{0}, int64_t{45}, (int64_t{1} << 32) - 7}) {
    std::vector<uint64_t> some(100);
    keys.keys(first, some);
    for (size_t i = 0; i < some.size(); ++i) ASSERT_EQ(some[i], keys.key(first + static_cast<int64_t>(i))) << i;
  }
}

TEST(ShuffleKeysTest, KeysAreTheSameOnEveryMachine) {
  // Pinned: states of running pipelines rely on them.
  const ShuffleKeys keys(16384, 42, {.epoch = 3, .path = 0}, true);
  uint64_t digest = 0;
  for (int64_t row = 0; row < 100000; ++row) digest = digest * 0x9e3779b97f4a7c15ULL + keys.key(row);
  EXPECT_EQ(digest, 15792431248606972895ULL);
}

TEST(ShuffleKeysTest, NegativeLogIsTheLogarithm) {
  const CounterRng rng(7, operator_id("test"));
  for (uint64_t i = 0; i < 10000; ++i) {
    const uint64_t bits = (rng.bits(i) >> (i % 64)) | 1;
    const long double expected = -std::log(static_cast<long double>(bits)) + 64 * std::log(2.0L);
    ASSERT_NEAR(static_cast<double>(ShuffleKeys::negative_log(bits)) / 4294967296.0, static_cast<double>(expected),
                2e-7);
  }
  EXPECT_EQ(ShuffleKeys::negative_log(UINT64_MAX) >> 20, 0u);
}

TEST(ShuffleKeysTest, SeedEpochAndPathChangeTheOrderUnlessEachEpochIsToBeTheSame) {
  const auto key = [](uint64_t seed, int64_t epoch, uint64_t path, bool reshuffle) {
    return ShuffleKeys(100, seed, {.epoch = epoch, .path = path}, reshuffle).key(5);
  };
  EXPECT_NE(key(1, 0, 0, true), key(2, 0, 0, true));
  EXPECT_NE(key(1, 0, 0, true), key(1, 1, 0, true));
  EXPECT_NE(key(1, 0, 0, true), key(1, 0, 9, true));
  EXPECT_EQ(key(1, 0, 0, false), key(1, 1, 0, false));
  EXPECT_NE(key(1, 0, 0, false), key(1, 0, 9, false));
}

}  // namespace
}  // namespace millrace::shuffle_keys_test
