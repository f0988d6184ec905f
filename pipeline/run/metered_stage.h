#pragma once

#include "millrace/ops/stage.h"
#include "millrace/pipeline/run/stage_statistics.h"

namespace millrace {

/// Asks a stage as often as the chain's turn allows, and says in errors which one it is. Counts what it delivers and
/// the time inside it, and tells the stage that polls it in the same chain how much of its time that was.
class MeteredStage final : public Stage {
 public:
  /// `counts`: otherwise only the name in `statistics` is used.
  MeteredStage(std::unique_ptr<Stage> stage, StageStatistics& statistics, bool counts)
      : stage_(std::move(stage)), statistics_(statistics), counts_(counts) {}
  Poll next(Block& out) override;

 private:
  Poll count_next(Block& out);

  std::unique_ptr<Stage> stage_;
  StageStatistics& statistics_;
  const bool counts_;
};

}  // namespace millrace
