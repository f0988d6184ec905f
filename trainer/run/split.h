#pragma once

#include <array>
#include <string_view>

namespace millrace {

/// The two parts of the data set.
enum class Split {
  kTrain,
  kValidation,
};

inline constexpr std::array<Split, 2> kSplits = {Split::kTrain, Split::kValidation};

/// `train` or `validation`: the name of the folder, and in the names of files.
constexpr std::string_view to_string(Split split) { return split == Split::kTrain ? "train" : "validation"; }

}  // namespace millrace
