#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

/// How scores of a column are rounded.
struct Bins {
  int k = 0;           ///< steps from 0 to 1; 0: scores stay as they are. Default: 0
  double least = 0;    ///< this score, and any below it, becomes 0
  double largest = 0;  ///< this one, and any above it, becomes 1; above `least` where k is not 0
  friend bool operator==(const Bins&, const Bins&) = default;
};

/// Scores of one column from 0 to 1, rounded to multiples of 1/k, halves to the even one. What becomes of a score does
/// not depend on those beside it, but in one case: unlike ones that would all become equal stay as they are, since a
/// column that says one thing of all rows has no rank correlation.
[[nodiscard]] std::vector<double> binned(std::span<const double> scores, const Bins& bins);

/// The same of each column of `[rows, columns]`, with bins for each.
[[nodiscard]] std::vector<double> binned_columns(std::span<const double> scores, std::span<const Bins> bins_of_column);

/// The bins from the least to the largest of these scores, in 2 to 199 steps, with which they have the highest rank
/// correlation (`spearman`) with the labels, of equal ones the fewest steps; none (k = 0) unless one is better than the
/// scores as they are. Labels of few values (mean votes of a few people) gain by it. Throws `kWrongShape` for lists of
/// unlike length.
[[nodiscard]] Bins best_bins(std::span<const double> scores, std::span<const double> labels);

/// Scores of validation rows of one fold, by a model that has not seen them, and their labels: `[columns][rows]`.
struct FoldScores {
  std::vector<std::vector<double>> scores = {};
  std::vector<std::vector<double>> labels = {};
};
/// Of `[rows, columns]` of both. Throws `kWrongShape` for lists of unlike length and rows that are not whole.
[[nodiscard]] FoldScores fold_scores(std::span<const double> scores, std::span<const float> labels, int64_t columns);

/// What binning is worth: rank correlations `[folds][columns]` of the scores as they are, and of those binned as the
/// other folds together choose. NaN as `spearman`.
struct BinningGain {
  std::vector<std::vector<double>> raw = {};
  std::vector<std::vector<double>> binned = {};
  std::vector<Bins> bins = {};  ///< by column, what all folds choose: for rows of no fold
};

/// Of one fold alone nothing is binned: there is no other to choose by. Throws as `best_bins`.
[[nodiscard]] BinningGain binning_gain(std::span<const FoldScores> folds);

}  // namespace millrace
