#include "millrace/formats/random/counter_rng.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/formats/random/philox_words.h"
#include "tests/support/instruction_sets.h"

namespace millrace::counter_rng_test {
namespace {

TEST(CounterRng, PhiloxGivesTheKnownAnswersOfItsAuthors) {
  EXPECT_EQ(CounterRng::philox(0, 0, {0, 0}), (CounterRng::Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(CounterRng::philox(0x85a308d3243f6a88, 0x0370734413198a2e, {0xa4093822, 0x299f31d0}),
            (CounterRng::Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Checkpoints and stream hashes rest on these numbers; they come from an independent implementation of the mapping.
TEST(CounterRng, TheMappingFromSeedOperatorIterationOrdinalAndDrawIsPinned) {
  EXPECT_EQ(operator_id("mask_tokens"), 0xf64138a7c000a7ac);
  const CounterRng rng(0x0123456789abcdef, operator_id("mask_tokens"), {.epoch = 3, .path = 0xfeedfacecafef00d});
  EXPECT_EQ(rng.key(), (std::array<uint32_t, 2>{0xa292fd6b, 0x814cba98}));
  EXPECT_EQ(rng.words((uint64_t{1} << 40) + 5, 7), (CounterRng::Words{0xfa6cc89f, 0x7e0c4c2d, 0x95e64c0c, 0xa617f8e3}));
  EXPECT_EQ(rng.bits((uint64_t{1} << 40) + 5, 7), 0x7e0c4c2dfa6cc89f);
}

TEST(CounterRng, AnOperatorsOccurrenceIsPartOfItsId) {
  EXPECT_EQ(operator_id("shuffle", 0), operator_id("shuffle"));
  EXPECT_EQ(operator_id("shuffle", 1), 0x346a5eb5023a628fu);
  EXPECT_EQ(operator_id("shuffle", 0x0102030405060708), 0xdf518a71cd79055eu);
}

TEST(CounterRng, EveryPartOfTheIdentityChangesTheNumbers) {
  const auto first = [](uint64_t seed, uint64_t id, Iteration iteration, uint64_t ordinal, uint64_t draw) {
    return CounterRng(seed, id, iteration).words(ordinal, draw);
  };
  const CounterRng::Words words = first(1, 2, {3, 4}, 5, 6);
  EXPECT_EQ(words, first(1, 2, {3, 4}, 5, 6));
  for (const int high : {0, 32}) {
    const uint64_t step = uint64_t{1} << high;
    EXPECT_NE(words, first(1 + step, 2, {3, 4}, 5, 6));
    EXPECT_NE(words, first(1, 2 + step, {3, 4}, 5, 6));
    EXPECT_NE(words, first(1, 2, {3 + static_cast<int64_t>(step), 4}, 5, 6));
    EXPECT_NE(words, first(1, 2, {3, 4 + step}, 5, 6));
    EXPECT_NE(words, first(1, 2, {3, 4}, 5 + step, 6));
    EXPECT_NE(words, first(1, 2, {3, 4}, 5, 6 + step));
  }
}

TEST(CounterRng, UniformBelowCoversItsRangeEvenlyAndNoMore) {
  EXPECT_EQ(uniform_below(uint32_t{0}, uint32_t{7}), 0u);
  EXPECT_EQ(uniform_below(~uint32_t{0}, uint32_t{7}), 6u);
  EXPECT_EQ(uniform_below(~uint64_t{0}, uint64_t{1} << 40), (uint64_t{1} << 40) - 1);
  EXPECT_EQ(uniform_below(uint64_t{1} << 63, uint64_t{10}), 5u);

  constexpr uint32_t kBins = 1000;
  constexpr int kDraws = 200'000;
  std::vector<int> counts(kBins);
  const CounterRng rng(17, operator_id("test"));
  for (int i = 0; i < kDraws / 4; ++i) {
    for (const uint32_t word : rng.words(static_cast<uint64_t>(i))) ++counts[uniform_below(word, kBins)];
  }
  double chi_square = 0;
  const double expected = static_cast<double>(kDraws) / kBins;
  for (const int count : counts) chi_square += (count - expected) * (count - expected) / expected;
  // 999 degrees of freedom: mean 999, standard deviation 44.7. Within 4 deviations: p about 6e-5.
  EXPECT_NEAR(chi_square, kBins - 1, 4 * std::sqrt(2.0 * (kBins - 1)));
}

TEST(CounterRng, ChanceCountsTheWordsBelowAProbability) {
  EXPECT_EQ(chance(0), 0u);
  EXPECT_EQ(chance(1), uint64_t{1} << 32);
  EXPECT_EQ(chance(0.25), uint64_t{1} << 30);
}

TEST(PhiloxWords, AreThoseOfTheGenerator) {
  test::for_each_instruction_set([] {
    const CounterRng rng(7, operator_id("test"), {.epoch = 3, .path = 11});
    for (size_t num_draws = 1; num_draws <= 128; num_draws += num_draws < 40 ? 1 : 11) {
      std::vector<uint32_t> words(4 * num_draws);
      philox_words(rng, uint64_t{5} << 33 | 9, num_draws, words);
      for (size_t draw = 0; draw < num_draws; ++draw) {
        const CounterRng::Words expected = rng.words(uint64_t{5} << 33 | 9, draw);
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), words.begin() + static_cast<ptrdiff_t>(4 * draw)))
            << draw << " of " << num_draws;
      }
      std::vector<Draw> draws;
      for (uint64_t i = 0; i < num_draws; ++i) draws.push_back({(i * i) << 20, (i % 3) << 32 | i});
      std::vector<uint32_t> first(num_draws);
      philox_first_words(rng, draws, first);
      for (size_t i = 0; i < num_draws; ++i) ASSERT_EQ(first[i], rng.words(draws[i].ordinal, draws[i].draw)[0]) << i;
      // Ordinals that pass 2^32 inside of a vector.
      constexpr uint64_t kFirst = (uint64_t{1} << 32) - 21;
      std::vector<uint64_t> bits(num_draws);
      philox_bits(rng, kFirst, bits);
      for (size_t i = 0; i < num_draws; ++i) ASSERT_EQ(bits[i], rng.bits(kFirst + i)) << i;
    }
  });
}

}  // namespace
}  // namespace millrace::counter_rng_test
