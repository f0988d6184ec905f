#pragma once

#include <optional>
#include <string>

#include "millrace/pipeline/skip_ledger.h"
#include "millrace/trainer/callback.h"

namespace millrace {

/// What `train_mlm` says at its end.
struct MlmSummary {
  TrainingSummary training;
  int64_t vocab_size = 0;
  std::optional<double> unigram_entropy;
  int threads = 0;
  std::string model;                  ///< the folder of the model; empty when none was written
  std::optional<SkipReport> skipped;  ///< nothing when damage is an error
  std::string skipped_list;
};

/// As one JSON object or as a table, on standard output.
void print_mlm_summary(const MlmSummary& summary, bool json);

}  // namespace millrace
