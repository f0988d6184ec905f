#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace millrace {

/// How often which class was predicted for which. -1 is no class: a row whose class nobody knows, a prediction that is
/// none.
///
///     ConfusionMatrix matrix({"spam", "other"});
///     matrix.add(0, 1);                       // spam that was taken for other
///     std::cout << matrix.to_text();
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::vector<std::string> names);

  /// Throws `kInvalidArgument` for a number of no class.
  void add(int64_t truth, int64_t predicted) { ++counts_[place_of(truth, predicted)]; }

  int64_t count(int64_t truth, int64_t predicted) const { return counts_[place_of(truth, predicted)]; }
  /// Rows of a class, of every class that is known, and all.
  int64_t rows_of(int64_t truth) const;
  int64_t rows_with_class() const;
  int64_t rows() const;
  /// Rows for which a class was predicted.
  int64_t predicted_as(int64_t predicted) const;
  /// The share of the rows with a class that were predicted as what they are; nothing without such rows.
  std::optional<double> accuracy() const;

  /// A table: a line a class, with the share of it that is right, where rows have classes; then how many rows were
  /// predicted as what. Ends with a newline.
  std::string to_text() const;
  /// `rows`, `no_class` (predictions), `predicted` by class; where rows have classes `rows_with_class`, `accuracy` and
  /// `confusion`, by class and prediction.
  nlohmann::ordered_json to_json() const;

 private:
  size_t place_of(int64_t truth, int64_t predicted) const;
  int64_t num_classes() const { return std::ssize(names_); }

  std::vector<std::string> names_;
  std::vector<int64_t> counts_;  // [classes + 1, classes + 1], no class last
};

}  // namespace millrace
