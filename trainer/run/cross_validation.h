#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/trainer/metrics/binning.h"

namespace millrace {

/// The fold of each row, from 0: rows of one group in one fold, so that nothing that a model was trained on comes back
/// in its validation. The biggest group goes first, each to the fold with the fewest rows; equal ones in the order in
/// which they appear, to the fold of the lowest number. Throws `kInvalidArgument` for fewer groups than folds.
std::vector<int> folds_of(std::span<const std::string> group_of_row, int num_folds);

/// The folder of a fold's run: OUT/fold-0.
std::string fold_folder(const std::string& out, int64_t fold);
/// The best model of each fold that has a run in OUT, from fold 0 on. Throws `kInvalidArgument` where there is none, or
/// a run has kept no model; `kIo` and `kParse`.
std::vector<std::string> best_models_of_folds(const std::string& out);

/// A table for people: the rank correlations of each column by fold and their mean, in how many steps its scores are
/// rounded, and the means of all with and without rounding.
std::string to_text(const BinningGain& gain, std::span<const std::string> columns);

}  // namespace millrace
