#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

/// Scores of one column from 0 (the least) to 1 (the largest), rounded to multiples of 1/k, halves to the even one.
/// They stay as they are for k = 0 and where they would all become equal: a column that says one thing of all rows has
/// no rank correlation.
[[nodiscard]] std::vector<double> binned(std::span<const double> scores, int k);

/// The same of each column of `[rows, columns]`, with a k for each.
[[nodiscard]] std::vector<double> binned_columns(std::span<const double> scores, std::span<const int> k_of_column);

/// The k of 2 to 199 with which binned scores have the highest rank correlation (`spearman`) with the labels, of equal
/// ones the smallest; 0 unless one is better than the scores as they are. Labels of few values (mean votes of a few
/// people) gain by it. Throws `kWrongShape` for lists of unlike length.
[[nodiscard]] int best_bins(std::span<const double> scores, std::span<const double> labels);

/// Scores of validation rows of one fold, by a model that has not seen them, and their labels: `[columns][rows]`.
struct FoldScores {
  std::vector<std::vector<double>> scores = {};
  std::vector<std::vector<double>> labels = {};
};

/// What binning is worth: rank correlations `[folds][columns]` of the scores as they are, and of those binned with the
/// k that the other folds together choose. NaN as `spearman`.
struct BinningGain {
  std::vector<std::vector<double>> raw = {};
  std::vector<std::vector<double>> binned = {};
  std::vector<int> bins = {};  ///< by column, what all folds choose: for rows of no fold
};

/// Needs two folds. Throws as `best_bins`.
[[nodiscard]] BinningGain binning_gain(std::span<const FoldScores> folds);

}  // namespace millrace
