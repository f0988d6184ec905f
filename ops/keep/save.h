#pragma once

#include <string>
#include <string_view>

#include "millrace/ops/operator.h"

namespace millrace {

/// Writes its input's elements to a folder, in place of those that are in it: what `Dataset::save` runs. In their place
/// it gives numbers: `elements` (int64) that were taken so far. The first element that is an error is passed on, and
/// nothing is kept. At the end, everything is on the disk.
class SaveOperator final : public StageOperator {
 public:
  /// `overwrite`: whether there may be elements in the folder.
  SaveOperator(const SchemaPtr& input, std::string directory, bool overwrite);
  std::string_view name() const override { return "save"; }
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::unknown(); }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  std::shared_ptr<SharedByRuns> share() const override;
  /// Throws `kInvalidArgument` when there are elements, or somebody else writes to the folder.
  int64_t prepare(SharedByRuns* shared, const Preparation& with) const override;

 private:
  const SchemaPtr input_;
  const std::string directory_;
  const bool overwrite_;
};

}  // namespace millrace
