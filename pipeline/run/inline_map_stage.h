#pragma once

#include "millrace/ops/operator.h"
#include "millrace/pipeline/run/stage_statistics.h"

namespace millrace {

/// A map as a stage of a serial chain: how maps run inside nested inputs. Numbers the rows for it as a segment would.
class InlineMapStage final : public Stage {
 public:
  /// `next_row`: the number of the first row that comes. `statistics`: counts the errors that the map drops; what comes
  /// out is counted by whoever polls this stage.
  InlineMapStage(std::unique_ptr<Stage> input, std::shared_ptr<const MapOperator> map, const StageContext& context,
                 StageStatistics& statistics, int64_t next_row)
      : input_(std::move(input)),
        map_(std::move(map)),
        pool_(context.pool),
        iteration_(context.iteration),
        statistics_(statistics),
        next_row_(next_row) {}
  Poll next(Block& out) override;

 private:
  std::unique_ptr<Stage> input_;
  std::shared_ptr<const MapOperator> map_;
  BufferPool& pool_;
  Iteration iteration_;
  StageStatistics& statistics_;
  int64_t next_row_;
};

}  // namespace millrace
