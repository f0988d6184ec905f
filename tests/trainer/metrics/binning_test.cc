// Bins against a slow reference: each k tried with `spearman` itself.
#include "millrace/trainer/metrics/binning.h"

#include <cmath>
#include <limits>

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

std::vector<double> slowly_binned(const std::vector<double>& scores, int k) {
  double least = std::numeric_limits<double>::infinity();
  double largest = -least;
  for (const double score : scores) {
    least = std::min(least, score);
    largest = std::max(largest, score);
  }
  if (k == 0 || least == largest) return scores;
  std::vector<double> result;
  for (const double score : scores) result.push_back(round_half_even((score - least) / (largest - least) * k) / k);
  return result;
}

int slowly_best_bins(const std::vector<double>& scores, const std::vector<double>& labels) {
  double best = spearman(scores, labels);
  int bins = 0;
  for (int k = 2; k <= 199; ++k) {
    const double value = spearman(slowly_binned(scores, k), labels);
    if (!(value > best)) continue;
    best = value;
    bins = k;
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
  EXPECT_THAT(binned(std::vector{0.0, 0.25, 0.5, 0.75, 1.0}, 2), ElementsAre(0, 0, 0.5, 1, 1));
  EXPECT_THAT(binned(std::vector{-4.0, -3.0, 0.0}, 2), ElementsAre(0, 0, 1));  // 1/4 of 2 is a half
  EXPECT_THAT(binned(std::vector{3.0, 1.0, 2.2}, 0), ElementsAre(3.0, 1.0, 2.2));
  EXPECT_THAT(binned({}, 5), IsEmpty());
}

TEST(Binned, LeavesAColumnOfOneValueAsItIs) { EXPECT_THAT(binned(std::vector{0.3, 0.3, 0.3}, 7), Each(0.3)); }

TEST(Binned, RoundsColumnsByThemselves) {
  EXPECT_THAT(binned_columns(std::vector{0.0, 5.0, 0.3, 6.0, 1.0, 6.5}, std::vector{2, 0}),
              ElementsAre(0, 5, 0.5, 6, 1, 6.5));
}

TEST(BestBins, AreThoseOfTheSlowReferenceOnThirdsSixthsNinthsAndConstants) {
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    const FoldScores fold = drawn_fold({3, 6, 9, 0, 1}, 60 + 13 * seed, 0.2 * static_cast<double>(seed), seed);
    for (size_t column = 0; column < fold.scores.size(); ++column) {
      EXPECT_EQ(best_bins(fold.scores[column], fold.labels[column]),
                slowly_best_bins(fold.scores[column], fold.labels[column]))
          << seed << " " << column;
      for (const int k : {2, 3, 10, 199}) {
        EXPECT_EQ(binned(fold.scores[column], k), slowly_binned(fold.scores[column], k));
      }
    }
  }
}

TEST(BestBins, AreNoneWhereNothingCanBeGained) {
  EXPECT_EQ(best_bins(std::vector{0.1, 0.2, 0.3}, std::vector{1.0, 2.0, 3.0}), 0);
  EXPECT_EQ(best_bins(std::vector{0.1, 0.2, 0.3}, std::vector{1.0, 1.0, 1.0}), 0);
  EXPECT_EQ(best_bins(std::vector{0.5, 0.5, 0.5}, std::vector{1.0, 2.0, 3.0}), 0);
  EXPECT_EQ(best_bins(std::vector{0.1, std::nan(""), 0.3}, std::vector{1.0, 1.0, 0.0}), 0);
  EXPECT_EQ(best_bins({}, {}), 0);
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
