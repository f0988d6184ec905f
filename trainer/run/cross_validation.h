#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "millrace/trainer/metrics/binning.h"

namespace millrace {

/// The group of each row, counted in the order in which they appear: rows that share a key, directly or over others,
/// are of one.
std::vector<size_t> groups_of(std::span<const std::vector<std::string>> keys_of_row);

/// The fold of each row, from 0: rows of one group in one fold, so that nothing that a model was trained on comes back
/// in its validation. The biggest group goes first, each to the fold with the fewest rows; equal ones in the order in
/// which they appear, to the fold of the lowest number. Throws `kInvalidArgument` for fewer groups than folds.
std::vector<int> folds_of(std::span<const size_t> group_of_row, int num_folds);

/// The folder of a fold's run: OUT/fold-0.
std::string fold_folder(const std::string& out, int64_t fold);

/// Numbers of folds as a command line has them. Throws `kInvalidArgument` naming the option.
std::vector<int64_t> parse_folds(const std::string& option, std::span<const std::string> texts);

struct FoldModel {
  int64_t fold = 0;
  std::string folder = {};
};
/// The best model of each of these folds, or of all that have a folder in OUT, in their order. Throws
/// `kInvalidArgument` where there is none, where a run has not ended or has kept no model; `kIo` and `kParse`. What is
/// not there is said with the program that writes it. Default: "a training"
std::vector<FoldModel> best_models_of_folds(const std::string& out, std::vector<int64_t> folds = {},
                                            std::string_view written_by = "a training");

/// A table for people: the rank correlations of each column by fold and their mean, in how many steps its scores are
/// rounded, and the means of all with and without rounding. `folds`: their numbers.
std::string to_text(const BinningGain& gain, std::span<const std::string> columns, std::span<const int64_t> folds);
/// The same figures as an object, whose text has null for NaN: `spearman` and `binned_spearman`, `[folds][columns]`;
/// `mean_spearman` and `mean_binned_spearman`, `[folds]`, and `mean_of_folds` of both; `bins`, by column `k`, `least`,
/// `largest`.
[[nodiscard]] nlohmann::ordered_json to_json(const BinningGain& gain);

}  // namespace millrace
