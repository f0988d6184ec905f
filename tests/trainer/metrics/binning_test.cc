// Bins against a slow reference: each k tried with `spearman` itself.
#include "millrace/trainer/metrics/binning.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/trainer/metrics/scored_rows.h"
#include "millrace/trainer/metrics/spearman.h"

namespace millrace::binning_test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::ThrowsMessage;

// Halves to the even number, from the definition.
double round_half_even(double x) {
  const double below = std::floor(x);
  if (x - below < 0.5) return below;
  if (x - below > 0.5) return below + 1;
  return std::fmod(below, 2) == 0 ? below : below + 1;
}

std::vector<double> slowly_binned(const std::vector<double>& scores, const Bins& bins) {
  std::vector<double> result;
  for (const double score : scores) {
    const double kept = score < bins.least ? bins.least : score > bins.largest ? bins.largest : score;
    result.push_back(round_half_even((kept - bins.least) / (bins.largest - bins.least) * bins.k) / bins.k);
  }
  const bool one_value = std::set(result.begin(), result.end()).size() == 1;
  return bins.k == 0 || (one_value && std::set(scores.begin(), scores.end()).size() > 1) ? scores : result;
}

Bins slowly_best_bins(const std::vector<double>& scores, const std::vector<double>& labels) {
  Bins bins;
  double best = spearman(scores, labels);
  for (int k = 2; k <= 199; ++k) {
    const Bins these = {
        .k = k, .least = *std::ranges::min_element(scores), .largest = *std::ranges::max_element(scores)};
    const double value = spearman(slowly_binned(scores, these), labels);
    if (!(value > best)) continue;
    best = value;
    bins = these;
  }
  return bins;
}

// Labels in steps of 1 / levels, mostly at both ends (0: all equal), and scores that follow them with noise.
FoldScores drawn_fold(const std::vector<int>& levels, size_t rows, double noise, uint64_t seed) {
  FoldScores fold;
  for (size_t column = 0; column < levels.size(); ++column) {
    const CounterRng rng(seed, column);
    fold.scores.emplace_back();
    fold.labels.emplace_back();
    for (size_t row = 0; row < rows; ++row) {
      const CounterRng::Words words = rng.words(row);
      const double uniform = words[0] / 4294967296.0;
      const double label = levels[column] == 0
                               ? 0.5
                               : std::round(levels[column] * (uniform < 0.5 ? 0 : 2 * uniform - 1)) / levels[column];
      fold.labels.back().push_back(label);
      fold.scores.back().push_back(label + noise * (words[1] / 4294967296.0 - 0.5));
    }
  }
  return fold;
}

TEST(Binned, RoundsHalvesToTheEvenStep) {
  EXPECT_THAT(binned(std::vector{0.0, 0.25, 0.5, 0.75, 1.0}, {.k = 2, .least = 0, .largest = 1}),
              ElementsAre(0, 0, 0.5, 1, 1));
  EXPECT_THAT(binned(std::vector{-4.0, -3.0, 0.0}, {.k = 2, .least = -4, .largest = 0}),
              ElementsAre(0, 0, 1));  // 1/4 of 2 is a half
  EXPECT_THAT(binned(std::vector{3.0, 1.0, 2.2}, {}), ElementsAre(3.0, 1.0, 2.2));
  EXPECT_THAT(binned({}, {.k = 5, .least = 0, .largest = 1}), IsEmpty());
}

TEST(Binned, SaysTheSameOfAScoreWhateverStandsBesideIt) {
  const Bins bins = {.k = 4, .least = 1, .largest = 3};
  const std::vector<double> all = {0.5, 1, 1.6, 2.1, 2.2, 2.9, 3, 7};
  const std::vector<double> together = binned(all, bins);
  EXPECT_THAT(together, ElementsAre(0, 0, 0.25, 0.5, 0.5, 1, 1, 1));  // what is outside goes to the ends
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_THAT(binned(std::vector{all[i]}, bins), ElementsAre(together[i]));
    if (i > 0 && together[i] != together[i - 1]) {
      EXPECT_THAT(binned(std::vector{all[i], all[i - 1]}, bins), ElementsAre(together[i], together[i - 1]));
    }
  }
}

TEST(Binned, LeavesScoresAsTheyAreThatWouldAllBecomeEqual) {
  const Bins bins = {.k = 2, .least = 0, .largest = 1};
  EXPECT_THAT(binned(std::vector{0.3, 0.4, 0.6}, bins), ElementsAre(0.3, 0.4, 0.6));
  EXPECT_THAT(binned(std::vector{0.3, 0.3, 0.3}, bins), Each(0.5));  // nothing is lost
}

TEST(Binned, RoundsColumnsByThemselves) {
  EXPECT_THAT(binned_columns(std::vector{0.0, 5.0, 0.3, 6.0, 1.0, 6.5}, std::vector<Bins>{{2, 0, 1}, {}}),
              ElementsAre(0, 5, 0.5, 6, 1, 6.5));
}

TEST(FoldScores, AreByColumn) {
  const FoldScores fold = fold_scores(std::vector{0.1, 0.2, 0.3, 0.4}, std::vector{1.0F, 2.0F, 3.0F, 4.0F}, 2);
  EXPECT_THAT(fold.scores, ElementsAre(ElementsAre(0.1, 0.3), ElementsAre(0.2, 0.4)));
  EXPECT_THAT(fold.labels, ElementsAre(ElementsAre(1, 3), ElementsAre(2, 4)));
  EXPECT_THAT(
      [] {
        (void)fold_scores(std::vector{0.1, 0.2, 0.3}, std::vector{1.0F, 2.0F, 3.0F}, 2);
      },
      ThrowsMessage<ErrorException>(testing::HasSubstr("3 scores and 3 labels of rows of 2")));
}

TEST(BestBins, AreThoseOfTheSlowReferenceOnThirdsSixthsNinthsAndConstants) {
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    const FoldScores fold = drawn_fold({3, 6, 9, 0, 1}, 60 + 13 * seed, 0.2 * static_cast<double>(seed), seed);
    for (size_t column = 0; column < fold.scores.size(); ++column) {
      EXPECT_EQ(best_bins(fold.scores[column], fold.labels[column]),
                slowly_best_bins(fold.scores[column], fold.labels[column]))
          << seed << " " << column;
      for (const int k : {2, 3, 10, 199}) {
        const Bins bins = {.k = k, .least = 0.1, .largest = 0.7};
        EXPECT_EQ(binned(fold.scores[column], bins), slowly_binned(fold.scores[column], bins));
      }
    }
  }
}

TEST(BestBins, AreNoneWhereNothingCanBeGained) {
  EXPECT_EQ(best_bins(std::vector{0.1, 0.2, 0.3}, std::vector{1.0, 2.0, 3.0}), Bins());
  EXPECT_EQ(best_bins(std::vector{0.1, 0.2, 0.3}, std::vector{1.0, 1.0, 1.0}), Bins());
  EXPECT_EQ(best_bins(std::vector{0.5, 0.5, 0.5}, std::vector{1.0, 2.0, 3.0}), Bins());
  EXPECT_EQ(best_bins(std::vector{0.1, std::nan(""), 0.3}, std::vector{1.0, 1.0, 0.0}), Bins());
  EXPECT_EQ(best_bins({}, {}), Bins());
  EXPECT_THAT([] { (void)best_bins(std::vector{0.1}, {}); },
              ThrowsMessage<ErrorException>(testing::HasSubstr("bins of 1 scores by 0 labels")));
}

TEST(BinningGain, ChoosesOnTheOtherFoldsAndMeasuresOnTheOneLeftOut) {
  const std::vector<FoldScores> folds = {drawn_fold({3, 0, 9}, 50, 0.15, 11), drawn_fold({6, 0, 3}, 50, 0.15, 12),
                                         drawn_fold({9, 0, 6}, 50, 0.15, 13)};
  int chosen_otherwise = 0;  // than by all folds
  const BinningGain gain = binning_gain(folds);
  std::vector<double> scores[3];
  std::vector<double> labels[3];
  for (const FoldScores& fold : folds) {
    for (const size_t column : {0, 1, 2}) {
      scores[column].insert(scores[column].end(), fold.scores[column].begin(), fold.scores[column].end());
      labels[column].insert(labels[column].end(), fold.labels[column].begin(), fold.labels[column].end());
    }
  }
  for (const size_t column : {0, 1, 2}) {
    EXPECT_EQ(gain.bins[column], slowly_best_bins(scores[column], labels[column]));
    for (const size_t fold : {0, 1, 2}) {
      std::vector<double> other_scores = scores[column];
      std::vector<double> other_labels = labels[column];
      const auto cut = [&](std::vector<double>& all) {
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(50 * fold),
                  all.begin() + static_cast<std::ptrdiff_t>(50 * (fold + 1)));
      };
      cut(other_scores);
      cut(other_labels);
      chosen_otherwise += slowly_best_bins(other_scores, other_labels) != gain.bins[column] ? 1 : 0;
      const auto& mine = folds[fold].scores[column];
      const double raw = spearman(mine, folds[fold].labels[column]);
      const double binned =
          spearman(slowly_binned(mine, slowly_best_bins(other_scores, other_labels)), folds[fold].labels[column]);
      if (column == 1) {
        EXPECT_TRUE(std::isnan(gain.raw[fold][column]) && std::isnan(gain.binned[fold][column]));
      } else {
        EXPECT_EQ(gain.raw[fold][column], raw);
        EXPECT_EQ(gain.binned[fold][column], binned);
      }
    }
  }
  EXPECT_GT(chosen_otherwise, 1);
}

TEST(BinningGain, BinsNothingWhereThereIsNoOtherFoldToChooseBy) {
  const FoldScores fold = drawn_fold({9}, 300, 0.1, 1);
  const BinningGain gain = binning_gain({&fold, 1});
  EXPECT_EQ(gain.raw, gain.binned);
  EXPECT_THAT(gain.bins, ElementsAre(Bins()));
}

TEST(BinningGain, GainsOnLabelsOfNineLevelsThatTheScoresFollowClosely) {
  std::vector<FoldScores> folds;
  for (uint64_t seed = 1; seed <= 5; ++seed) folds.push_back(drawn_fold({9, 9, 9}, 300, 0.1, seed));
  const BinningGain gain = binning_gain(folds);
  double raw = 0;
  double in_bins = 0;
  for (size_t fold = 0; fold < 5; ++fold) {
    raw += mean_of_defined(gain.raw[fold]) / 5;
    in_bins += mean_of_defined(gain.binned[fold]) / 5;
  }
  EXPECT_GT(in_bins, raw + 0.005);
}

}  // namespace
}  // namespace millrace::binning_test
