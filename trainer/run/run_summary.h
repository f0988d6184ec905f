#pragma once

#include <optional>
#include <string>
#include <vector>

#include "millrace/pipeline/skip_ledger.h"
#include "millrace/trainer/callback.h"

namespace millrace {

/// What a program says of its own at the end of a run.
struct SummaryLine {
  std::string name = {};             ///< in the table: `unigram entropy`
  std::string text = {};             ///< in the table; empty: not there
  std::string key = {};              ///< in the JSON object: `unigram_entropy`
  std::optional<double> value = {};  ///< in the JSON object; none: null
};

/// What a training program says at its end.
struct RunSummary {
  TrainingSummary training = {};
  std::string best_by = "loss";  ///< of the best models
  int64_t num_shapes = 0;        ///< of the batches
  std::vector<SummaryLine> lines = {};
  int threads = 0;
  std::string model = {};                  ///< its folder; empty when none was written
  std::optional<SkipReport> skipped = {};  ///< none when damage is an error
  std::string skipped_list = {};
};

/// On standard output, as a table or as one JSON object on a line: steps, losses, metrics of the last evaluation as
/// `evaluation_NAME`, the lines of the program, where the time went, the most memory that was resident, the models.
void print_summary(const RunSummary& summary, bool json);

}  // namespace millrace
