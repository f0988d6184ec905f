#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "examples/text_to_text/text_rows.h"
#include "millrace/trainer/run/split.h"

namespace millrace {

struct PreparationOptions {
  /// CSVs: of all splits, or of those without one of their own. Default: none
  std::array<std::string, kSplitNames.size()> csv = {};
  TextColumns columns = {};
  /// In their place packages; `sections` are the task's classes, where it has any. Default: none
  DrawnPackagesOptions packages = {};
  std::string out = {};  ///< folder of the set
  /// A tokenizer.json, or the folder of a T5 with one. Default: none, one is learnt from the rows to train on
  std::string tokenizer = {};
  int32_t vocab_size = 8000;  ///< of one that is learnt. Default: 8,000
  TextTask task = {};         ///< without classes those of the packages, each its own word
  SplitShares shares = {};    ///< of the rows of the first CSV, or of the packages
  uint64_t seed = 42;         ///< of what is drawn. Default: 42
  int threads = 0;            ///< Default: 0, one for each core. The files do not depend on it
  bool json = false;          ///< of the program: it prints its report so
};

struct SplitReport {
  int64_t rows = 0;
  int64_t truncated = 0;               ///< of more than `max_length` tokens
  int64_t tokens = 0;                  ///< that are no padding
  std::vector<int64_t> of_class = {};  ///< rows of each class
};

struct PreparationReport {
  TextTask task = {};
  int32_t vocab_size = 0;
  std::array<SplitReport, kSplitNames.size()> splits = {};
  std::vector<std::pair<std::string, int64_t>> left_out = {};  ///< why, and how many packages
};

/// The name of a split's file: `train-6410.tfrecord`, 6,410 rows.
[[nodiscard]] std::string split_file(size_t split, int64_t num_rows);

/// Writes the splits' files, `statistics.json` and `tokenizer.json` into a folder, whole or not at all
/// (ShardSetWriter): an Example a row with the int64 features `input_ids` and `attention_mask`, `[max_length]`,
/// `labels` and `decoder_attention_mask`, `[2]`, and `class`, `[1]`. `on_progress` is told how many rows are written;
/// where `stop` says true it ends without a result. Both may be null. Throws `kInvalidArgument` when there is no row to
/// train on, also of one class; what the tokenizer, the rows and the writer throw. Then the folder is as it was.
[[nodiscard]] std::optional<PreparationReport> prepare(const PreparationOptions& options,
                                                       const std::function<void(int64_t)>& on_progress,
                                                       const std::function<bool()>& stop);

/// `statistics.json`.
void to_json(nlohmann::ordered_json& json, const PreparationReport& report);

/// The command line of `prepare_text_to_text`; nothing when `--help` was asked for and printed. Throws
/// `kInvalidArgument` with one line that says what is wrong.
[[nodiscard]] std::optional<PreparationOptions> parse_preparation_options(int argc, const char* const* argv);

}  // namespace millrace
