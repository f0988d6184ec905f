#include "millrace/tokenizer/training/word_counts.h"

#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::word_counts_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

std::string numbered(const char* word, int number) { return fmt::format("{}{}", word, number); }

TEST(WordCounts, GivesAllWordsWhereThereAreFewEnough) {
  WordCounts counts;
  for (const char* word : {"mill", "race", "mill", "a"}) counts.add(word);
  EXPECT_EQ(counts.total(), 4);
  EXPECT_EQ(counts.words().size(), 3);
  EXPECT_THAT(counts.sample(3, 1), ElementsAre(Pair("a", 1), Pair("mill", 2), Pair("race", 1)));
}

TEST(WordCounts, KeepsFrequentWordsAndLetsRareOnesStandForEachOther) {
  WordCounts counts;
  counts.add("often", 1000);
  counts.add("seldom", 7);
  for (int i = 0; i < 900; ++i) counts.add(numbered("rare", i));
  const auto sample = counts.sample(100, 42);
  EXPECT_LE(sample.size(), 100);
  EXPECT_GE(sample.size(), 90);
  std::map<std::string, int64_t> of_word(sample.begin(), sample.end());
  EXPECT_EQ(of_word["often"], 1000);
  // 907 rare occurrences in sixteenths or so: each that is taken stands for as many as were left out.
  int64_t rare = 0;
  for (const auto& [word, count] : of_word) rare += word == "often" ? 0 : count;
  EXPECT_NEAR(rare, 907, 12);
}

TEST(WordCounts, SampleIsTheSameForOneSeedAndAnotherForAnother) {
  WordCounts counts;
  WordCounts backwards;
  for (int i = 0; i < 500; ++i) counts.add(numbered("w", i));
  for (int i = 499; i >= 0; --i) backwards.add(numbered("w", i));
  EXPECT_EQ(counts.sample(50, 1), backwards.sample(50, 1));
  EXPECT_NE(counts.sample(50, 1), counts.sample(50, 2));
}

TEST(WordCounts, SampleFallsToOneWordWhenOnlyOneMayStay) {
  WordCounts counts;
  for (int i = 0; i < 500; ++i) counts.add(numbered("w", i), 1 + i % 3);
  EXPECT_LE(counts.sample(1, 3).size(), 1);
}

}  // namespace
}  // namespace millrace::word_counts_test
