#pragma once

#include "ops/operator.h"

namespace millrace {

/// A map as a stage of a serial chain: how maps run inside nested inputs. Numbers the rows for it as a segment would.
class InlineMapStage final : public Stage {
 public:
  InlineMapStage(std::unique_ptr<Stage> input, std::shared_ptr<const MapOperator> map, const StageContext& context)
      : input_(std::move(input)), map_(std::move(map)), pool_(context.pool), iteration_(context.iteration) {}
  Poll next(Block& out) override;

 private:
  std::unique_ptr<Stage> input_;
  std::shared_ptr<const MapOperator> map_;
  BufferPool& pool_;
  Iteration iteration_;
  int64_t next_row_ = 0;
};

}  // namespace millrace
