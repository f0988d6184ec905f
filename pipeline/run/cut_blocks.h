#pragma once

#include <memory>
#include <vector>

#include "millrace/ops/operator.h"

namespace millrace {

/// Cuts blocks that maps would make too large: a record of a hundred bytes can be an element of many megabytes, and a
/// block has up to 1,024 records. The blocks that come out take at most 16 MiB after the maps, or a 32nd of the memory
/// budget, as far as the schemas and `OperatorTraits::guessed_bytes` tell; or have one element.
class CutBlocks final : public Stage {
 public:
  /// `open`, with such a stage on top where one of `maps` may make it necessary.
  static OpenStage before(std::vector<std::shared_ptr<const MapOperator>> maps, OpenStage open);

  CutBlocks(std::unique_ptr<Stage> input, std::vector<std::shared_ptr<const MapOperator>> maps,
            const StageContext& context);
  Poll next(Block& out) override;

 private:
  size_t most_elements(const Block& block) const;

  std::unique_ptr<Stage> input_;
  std::vector<std::shared_ptr<const MapOperator>> maps_;
  int64_t most_bytes_;
  Block block_;       // of the input
  size_t taken_ = 0;  // elements of it that are gone
};

}  // namespace millrace
