#include "millrace/formats/random/keyed_permutation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "millrace/formats/random/counter_rng.h"
#include "tests/support/sanitized.h"

namespace millrace::keyed_permutation_test {
namespace {

std::vector<uint64_t> numbers_of(const KeyedPermutation& order) {
  std::vector<uint64_t> numbers(order.size());
  for (uint64_t i = 0; i < order.size(); ++i) numbers[i] = order(i);
  return numbers;
}

std::vector<uint64_t> keyed(uint64_t size, uint64_t seed, int rounds) {
  return numbers_of(KeyedPermutation(size, seed, {}, rounds));
}

// A uniform permutation, to hold the tests themselves against.
std::vector<uint64_t> fisher_yates(uint64_t size, uint64_t seed) {
  std::vector<uint64_t> numbers(size);
  std::iota(numbers.begin(), numbers.end(), uint64_t{0});
  const CounterRng rng(seed, operator_id("fisher_yates"));
  for (uint64_t i = size; i > 1; --i) std::swap(numbers[i - 1], numbers[uniform_below(rng.bits(i), i)]);
  return numbers;
}

// The probability of a number at least as far from 0, of a standard normal one.
double p_of_normal(double z) { return std::erfc(std::fabs(z) / std::sqrt(2.0)); }

// Of a chi-square at least as large (Wilson and Hilferty).
double p_of_chi_square(double chi_square, double degrees) {
  const double spread = 2 / (9 * degrees);
  return 0.5 * std::erfc((std::cbrt(chi_square / degrees) - (1 - spread)) / std::sqrt(2 * spread));
}

double p_of_counts(const std::vector<double>& counts, double degrees) {
  const double expected = std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
  double chi_square = 0;
  for (const double count : counts) chi_square += (count - expected) * (count - expected) / expected;
  return p_of_chi_square(chi_square, degrees);
}

double distance(uint64_t a, uint64_t b) { return static_cast<double>(a > b ? a - b : b - a); }

// Each gives the probability that a uniform permutation is at least as far from what is expected of one.
struct Statistic {
  std::string name;
  std::function<double(const std::vector<uint64_t>&)> p;
};

constexpr uint64_t kShards = 100;

// How far numbers are moved: the sum of |i - order(i)| (Spearman's footrule; Diaconis and Graham 1977).
double p_of_displacement(const std::vector<uint64_t>& order) {
  const auto n = static_cast<double>(order.size());
  double sum = 0;
  for (uint64_t i = 0; i < order.size(); ++i) sum += distance(i, order[i]);
  return p_of_normal((sum - (n * n - 1) / 3) / std::sqrt((n + 1) * (2 * n * n + 7) / 45));
}

// Where the numbers of each shard go: 100 by 100 cells of equal size.
double p_of_cells(const std::vector<uint64_t>& order) {
  std::vector<double> cells(kShards * kShards);
  const uint64_t cell = order.size() / kShards;
  for (uint64_t i = 0; i < order.size(); ++i) ++cells[i / cell * kShards + order[i] / cell];
  return p_of_counts(cells, static_cast<double>((kShards - 1) * (kShards - 1)));
}

// How far apart the numbers of neighbours are: the sum of |order(i + 1) - order(i)|.
double p_of_neighbours(const std::vector<uint64_t>& order) {
  const auto n = static_cast<double>(order.size());
  double sum = 0;
  for (uint64_t i = 0; i + 1 < order.size(); ++i) sum += distance(order[i], order[i + 1]);
  return p_of_normal((sum - (n * n - 1) / 3) / std::sqrt((n - 2) * (n + 1) * (4 * n - 7) / 90));
}

// From which shard to which it goes.
double p_of_transitions(const std::vector<uint64_t>& order) {
  std::vector<double> cells(kShards * kShards);
  const uint64_t cell = order.size() / kShards;
  for (uint64_t i = 0; i + 1 < order.size(); ++i) ++cells[order[i] / cell * kShards + order[i + 1] / cell];
  return p_of_counts(cells, static_cast<double>(kShards * kShards - 1));
}

double p_of_descents(const std::vector<uint64_t>& order) {
  double descents = 0;
  for (uint64_t i = 0; i + 1 < order.size(); ++i) descents += order[i] > order[i + 1] ? 1 : 0;
  const auto n = static_cast<double>(order.size());
  return p_of_normal((descents - (n - 1) / 2) / std::sqrt((n + 1) / 12));
}

// Whether positions that differ in one bit have numbers that differ in certain low ones: what few rounds of a network
// leave. The worst bit, as the probability that the worst of so many is as bad.
double p_of_differences(const std::vector<uint64_t>& order) {
  double worst = 1;
  int bits = 0;
  for (uint64_t bit = 1; 4 * bit <= order.size(); bit *= 2, ++bits) {
    std::vector<double> counts(256);
    for (uint64_t i = 0; i + bit < order.size(); ++i) {
      if ((i & bit) == 0) ++counts[(order[i] ^ order[i + bit]) & 255];
    }
    worst = std::min(worst, p_of_counts(counts, 255));
  }
  return 1 - std::pow(1 - worst, bits);
}

const std::vector<Statistic> kStatistics{{"displacement", p_of_displacement}, {"cells", p_of_cells},
                                         {"neighbours", p_of_neighbours},     {"transitions", p_of_transitions},
                                         {"descents", p_of_descents},         {"differences", p_of_differences}};

TEST(KeyedPermutationTest, HasEveryNumberOnce) {
  for (const uint64_t size : {0, 1, 2, 3, 7, 8, 9, 100, 1023, 1024, 1025, 4096, 4097, 33333}) {
    std::vector<uint64_t> numbers = keyed(size, size, KeyedPermutation::kRounds);
    std::sort(numbers.begin(), numbers.end());
    std::vector<uint64_t> all(size);
    std::iota(all.begin(), all.end(), uint64_t{0});
    EXPECT_EQ(numbers, all) << size;
  }
}

TEST(KeyedPermutationTest, IsWhatStatesRelyOn) {
  EXPECT_EQ(numbers_of(KeyedPermutation(10, 0)), (std::vector<uint64_t>{5, 1, 2, 8, 6, 7, 9, 3, 4, 0}));
  const KeyedPermutation large(uint64_t{1} << 40, 42, {.epoch = 3, .path = 5});
  EXPECT_EQ((std::vector<uint64_t>{large(0), large(1), large((uint64_t{1} << 40) - 1)}),
            (std::vector<uint64_t>{521947165720, 448941585778, 942266842790}));
}

TEST(KeyedPermutationTest, SeedEpochAndPathGiveOtherOrders) {
  const std::vector<uint64_t> order = numbers_of(KeyedPermutation(1000, 1));
  const auto places_in_common = [&](const KeyedPermutation& other) {
    int common = 0;
    for (uint64_t i = 0; i < 1000; ++i) common += other(i) == order[i] ? 1 : 0;
    return common;
  };
  EXPECT_EQ(places_in_common(KeyedPermutation(1000, 1)), 1000);
  EXPECT_LE(places_in_common(KeyedPermutation(1000, 2)), 8);  // one on average
  EXPECT_LE(places_in_common(KeyedPermutation(1000, 1, {.epoch = 1})), 8);
  EXPECT_LE(places_in_common(KeyedPermutation(1000, 1, {.epoch = 0, .path = 1})), 8);
}

TEST(KeyedPermutationTest, AllOrdersOfAFewNumbersAreEquallyFrequent) {
  constexpr int kSeeds = 12000;
  for (const uint64_t size : {2, 3, 4, 5}) {
    std::map<std::vector<uint64_t>, double> counts;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) ++counts[keyed(size, seed, KeyedPermutation::kRounds)];
    std::vector<double> orders;
    for (const auto& [order, count] : counts) orders.push_back(count);
    ASSERT_EQ(orders.size(), std::vector<size_t>({2, 6, 24, 120})[size - 2]);
    const double p = p_of_counts(orders, static_cast<double>(orders.size() - 1));
    fmt::print("{} numbers, {} seeds: p = {:.3f}\n", size, kSeeds, p);
    EXPECT_GT(p, 0.001) << size;
  }
}

TEST(KeyedPermutationTest, APositionHasEveryNumberEquallyOften) {
  constexpr uint64_t kSize = 60;
  constexpr uint64_t kSeeds = 6000;
  std::vector<double> cells(kSize * kSize);
  std::vector<double> pairs(kSize * kSize);  // of the numbers in the middle
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const KeyedPermutation order(kSize, seed);
    for (uint64_t i = 0; i < kSize; ++i) ++cells[i * kSize + order(i)];
    ++pairs[order(29) * kSize + order(30)];
  }
  EXPECT_GT(p_of_counts(cells, (kSize - 1) * (kSize - 1)), 0.001);
  std::vector<double> unlike;
  for (uint64_t i = 0; i < pairs.size(); ++i) {
    if (i % kSize != i / kSize) unlike.push_back(pairs[i]);
  }
  EXPECT_GT(p_of_counts(unlike, static_cast<double>(unlike.size() - 1)), 0.001);
}

// Of permutations that are uniform, a twentieth of the probabilities lies below 0.05.
TEST(KeyedPermutationTest, DisplacementAndNeighboursAreThoseOfUniformPermutations) {
  constexpr uint64_t kSeeds = 40 / test::kStride;
  for (const uint64_t size : {50000, 65536}) {  // the second is a whole power of two: nothing is walked
    for (const Statistic& statistic : kStatistics) {
      // Equal cells are needed, and there the descents of a whole power of two are like others.
      const uint64_t numbers = statistic.name == "cells" || statistic.name == "transitions" ? size / 100 * 100 : size;
      int low = 0;
      double least = 1;
      for (uint64_t seed = 0; seed < kSeeds; ++seed) {
        const double p = statistic.p(keyed(numbers, seed, KeyedPermutation::kRounds));
        low += p < 0.05 ? 1 : 0;
        least = std::min(least, p);
      }
      fmt::print("{} numbers, {}: least p of {} seeds {:.4f}, {} below 0.05\n", numbers, statistic.name, kSeeds, least,
                 low);
      EXPECT_GT(least, 0.0001) << statistic.name;
      // Of 40 seeds 2 on average, 9 or more with a probability of 0.0003; of 8 seeds 4 or more with one of 0.0004.
      EXPECT_LE(low, test::kSanitized ? 3 : 8) << statistic.name;
    }
  }
}

TEST(KeyedPermutationTest, OfAMillionRecordsInAHundredShardsTheOrderIsLikeAUniformOne) {
  constexpr uint64_t kRecords = test::kSanitized ? 200000 : 1000000;
  const auto print = [](const std::string& name, const std::vector<uint64_t>& order) {
    std::string line = fmt::format("{:>12}", name);
    double least = 1;
    for (const Statistic& statistic : kStatistics) {
      const double p = statistic.p(order);
      line += fmt::format(" | {} {:.4f}", statistic.name, p);
      least = std::min(least, p);
    }
    fmt::print("{}\n", line);
    return least;
  };
  // A test that finds nothing in two rounds too would show nothing.
  for (const int rounds : {2, 3, 4, 6}) {
    const double least = print(fmt::format("{} rounds", rounds), keyed(kRecords, 42, rounds));
    if (rounds < 4) {
      EXPECT_LT(least, 1e-9) << rounds;
    }
  }
  EXPECT_GT(print("8 rounds", keyed(kRecords, 42, KeyedPermutation::kRounds)), 0.001);
  EXPECT_GT(print("uniform", fisher_yates(kRecords, 42)), 0.001);
}

}  // namespace
}  // namespace millrace::keyed_permutation_test
