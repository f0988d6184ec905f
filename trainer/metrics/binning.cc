#include "millrace/trainer/metrics/binning.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/metrics/ranks.h"
#include "millrace/trainer/metrics/scored_rows.h"
#include "millrace/trainer/metrics/spearman.h"

namespace millrace {
namespace {

constexpr int kFewestBins = 2;
constexpr int kMostBins = 199;

// Rank correlations of scores that are sorted once with labels that are ranked once.
class SortedScores {
 public:
  SortedScores(std::span<const double> scores, std::span<const double> labels) : sorted_(scores.size()) {
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t i) { return scores[i]; });
    const std::vector<double> ranks = average_ranks(labels);
    const double mean = (static_cast<double>(scores.size()) + 1) / 2;
    double sum = 0;
    sums_.push_back(0);
    for (size_t i = 0; i < order.size(); ++i) {
      sorted_[i] = scores[order[i]];
      const double label = ranks[order[i]] - mean;
      squares_ += label * label;
      sums_.push_back(sum += label);
    }
  }

  // Of values that ascend as the scores do, `value_of` each of them; NaN where all are equal.
  template <typename Value>
  double correlation(const Value& value_of) const {
    const auto size = static_cast<double>(sorted_.size());
    double both = 0;
    double squares = 0;
    for (size_t begin = 0; begin < sorted_.size();) {
      const double value = value_of(sorted_[begin]);
      size_t end = begin + 1;
      while (end < sorted_.size() && value_of(sorted_[end]) == value) ++end;
      const double rank = static_cast<double>(begin + end) / 2 - size / 2;  // shared, from the mean of all
      both += rank * (sums_[end] - sums_[begin]);
      squares += rank * rank * static_cast<double>(end - begin);
      begin = end;
    }
    return both / std::sqrt(squares * squares_);
  }
  double least() const { return sorted_.front(); }
  double largest() const { return sorted_.back(); }

 private:
  std::vector<double> sorted_;
  std::vector<double> sums_;  // of the labels' ranks, without their mean, before each score
  double squares_ = 0;        // of these ranks
};

double bin(double score, const Bins& bins) {
  const double share = std::clamp((score - bins.least) / (bins.largest - bins.least), 0.0, 1.0);
  return std::nearbyint(share * bins.k) / bins.k;  // to even: the rounding mode that a process starts with
}

}  // namespace

std::vector<double> binned(std::span<const double> scores, const Bins& bins) {
  return binned_columns(scores, {&bins, 1});
}

std::vector<double> binned_columns(std::span<const double> scores, std::span<const Bins> bins_of_column) {
  std::vector<double> result(scores.begin(), scores.end());
  const size_t columns = bins_of_column.size();
  for (size_t c = 0; c < columns && c < scores.size(); ++c) {
    const Bins& bins = bins_of_column[c];
    if (bins.k == 0) continue;
    bool one_score = true;
    bool one_value = true;
    for (size_t i = c; i < scores.size(); i += columns) {
      result[i] = bin(scores[i], bins);
      one_score = one_score && scores[i] == scores[c];
      one_value = one_value && result[i] == result[c];
    }
    if (!one_value || one_score) continue;
    for (size_t i = c; i < scores.size(); i += columns) result[i] = scores[i];
  }
  return result;
}

Bins best_bins(std::span<const double> scores, std::span<const double> labels) {
  if (scores.size() != labels.size()) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("bins of {} scores by {} labels", scores.size(), labels.size()));
  }
  if (scores.empty() || any_nan(scores) || any_nan(labels)) return {};
  const SortedScores sorted(scores, labels);
  double best = sorted.correlation([](double score) { return score; });
  if (std::isnan(best)) return {};
  Bins bins;
  for (int k = kFewestBins; k <= kMostBins; ++k) {
    const Bins these = {.k = k, .least = sorted.least(), .largest = sorted.largest()};
    const double value = sorted.correlation([&](double score) { return bin(score, these); });
    if (value <= best) continue;
    best = value;
    bins = these;
  }
  return bins;
}

FoldScores fold_scores(std::span<const double> scores, std::span<const float> labels, int64_t columns) {
  const auto num_columns = static_cast<size_t>(columns);
  if (columns < 1 || scores.size() != labels.size() || scores.size() % num_columns != 0) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("{} scores and {} labels of rows of {}", scores.size(), labels.size(), columns));
  }
  FoldScores fold;
  fold.scores.resize(num_columns);
  fold.labels.resize(num_columns);
  for (size_t i = 0; i < scores.size(); ++i) {
    fold.scores[i % num_columns].push_back(scores[i]);
    fold.labels[i % num_columns].push_back(labels[i]);
  }
  return fold;
}

BinningGain binning_gain(std::span<const FoldScores> folds) {
  // Of all folds but one, or of all.
  const auto bins_without = [&](size_t left_out, size_t column) {
    if (folds.size() < 2) return Bins();
    std::vector<double> scores;
    std::vector<double> labels;
    for (size_t fold = 0; fold < folds.size(); ++fold) {
      if (fold == left_out) continue;
      scores.insert(scores.end(), folds[fold].scores[column].begin(), folds[fold].scores[column].end());
      labels.insert(labels.end(), folds[fold].labels[column].begin(), folds[fold].labels[column].end());
    }
    return best_bins(scores, labels);
  };
  BinningGain gain;
  const size_t columns = folds.front().scores.size();
  for (size_t fold = 0; fold < folds.size(); ++fold) {
    std::vector<double>& raw = gain.raw.emplace_back();
    std::vector<double>& in_bins = gain.binned.emplace_back();
    for (size_t column = 0; column < columns; ++column) {
      const std::vector<double>& scores = folds[fold].scores[column];
      const std::vector<double>& labels = folds[fold].labels[column];
      raw.push_back(spearman(scores, labels));
      in_bins.push_back(spearman(binned(scores, bins_without(fold, column)), labels));
    }
  }
  for (size_t column = 0; column < columns; ++column) gain.bins.push_back(bins_without(folds.size(), column));
  return gain;
}

}  // namespace millrace
