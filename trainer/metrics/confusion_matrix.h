#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace millrace {

/// How often which class was predicted for which. -1 is no class: a row whose class nobody knows, a prediction that is
/// none. One thread at a time.
///
///     ConfusionMatrix matrix({"spam", "other"});
///     for (const int64_t said : {0, 0, 1}) matrix.add(0, said);  // of spam
///     for (const int64_t said : {1, -1}) matrix.add(1, said);    // of other
///     std::cout << matrix.to_text();
///
/// prints a line for each class and, below, how many rows were predicted as what:
///
///                 spam   other  no class
///     spam           2       1         0   66.7% right
///     other          0       1         1   50.0% right
///     all            2       2         1
///     accuracy 0.6000 over 5 rows
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

  /// Of the rows whose class is known and that were predicted as this one: the share that is of it. Nothing where there
  /// are none. These three throw `kInvalidArgument` for a number of no class, -1 too.
  std::optional<double> precision(int64_t number) const;
  /// Of the rows of this class: the share that was predicted as it. Nothing where there are none.
  std::optional<double> recall(int64_t number) const;
  /// `2 right / (rows of the class + rows with a class predicted as it)`, the harmonic mean of the two. Nothing for a
  /// class that is neither there nor predicted.
  std::optional<double> f1(int64_t number) const;
  /// The mean of `f1` over the classes that have one, as `MacroF1`; nothing without rows that have a class.
  std::optional<double> macro_f1() const;

  /// The table above, where rows have classes; else how many were predicted as what. A class without rows has no share
  /// at its end. Ends with a newline.
  std::string to_text() const;
  /// `rows`, `no_class` (predictions), `predicted` by class; where rows have classes `rows_with_class`, `accuracy`,
  /// `macro_f1`, `confusion`, by class and prediction, and `by_class`: the `precision`, `recall` and `f1` of each, null
  /// where there is none.
  nlohmann::ordered_json to_json() const;

 private:
  size_t place_of(int64_t truth, int64_t predicted) const;
  int64_t right(int64_t number) const;
  int64_t known_predicted_as(int64_t predicted) const { return predicted_as(predicted) - count(-1, predicted); }
  int64_t num_classes() const { return std::ssize(names_); }

  std::vector<std::string> names_;
  std::vector<int64_t> counts_;  // [classes + 1, classes + 1], no class last
};

}  // namespace millrace
