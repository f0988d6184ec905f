#pragma once

#include "millrace/ops/stage.h"
#include "millrace/pipeline/run/stage_statistics.h"

namespace millrace {

/// Asks a stage as often as the chain's turn allows. Counts what it delivers and the time inside it, and tells the
/// stage that polls it in the same chain how much of its time that was.
class MeteredStage final : public Stage {
 public:
  /// `statistics`: null counts nothing.
  MeteredStage(std::unique_ptr<Stage> stage, StageStatistics* statistics)
      : stage_(std::move(stage)), statistics_(statistics) {}
  Poll next(Block& out) override;

 private:
  std::unique_ptr<Stage> stage_;
  StageStatistics* const statistics_;
};

}  // namespace millrace
