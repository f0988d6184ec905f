#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "millrace/formats/elements/index.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// The elements of a folder, in the order in which they were written. Blocks are read, checked and decoded in lanes
/// side by side, taken in turn; an error in the place of a block names file and offset, and the next block follows.
/// State: the number of the next element.
class SavedElementsStage final : public Stage {
 public:
  /// Lanes that the operator must have.
  static constexpr size_t kNumLanes = 8;

  /// Begins with the element `first`, notes counted. `kind`: of its states. `storage`: that has the folder. Rows that
  /// were written of an earlier epoch than `context` has get that one. Notes come in the first epoch only.
  SavedElementsStage(std::string_view kind, std::shared_ptr<const ElementsIndex> index, int64_t first, Storage& storage,
                     const StageContext& context);
  Poll next(Block& out) override;

 private:
  const std::string_view kind_;
  const std::shared_ptr<const ElementsIndex> index_;
  const int64_t epoch_;
  BufferPool& pool_;
  int64_t place_;  // of the next element
  size_t block_;   // that has it
  const size_t first_block_;
  std::array<std::unique_ptr<Stage>, kNumLanes> lanes_;
};

}  // namespace millrace
