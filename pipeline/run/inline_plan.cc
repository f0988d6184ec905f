#include "millrace/pipeline/run/inline_plan.h"

#include <fmt/format.h>

#include "millrace/formats/storage/local_disk.h"
#include "millrace/pipeline/run/cut_blocks.h"
#include "millrace/pipeline/run/inline_map_stage.h"
#include "millrace/pipeline/run/numbered_rows.h"
#include "millrace/pipeline/run/poll_budget.h"

namespace millrace {

OpenStage inline_opener(const PlanNode& plan, StageStatistics& statistics) {
  std::vector<OpenStage> inputs;
  inputs.reserve(plan.inputs.size());
  for (const PlanNodePtr& input : plan.inputs) inputs.push_back(inline_opener(*input, statistics));
  if (plan.op->traits().prefetched) return inputs[0];
  if (const auto map = as_map(plan)) {
    return [map, input = CutBlocks::before({map}, std::move(inputs[0])), &statistics](const StageContext& context) {
      NumberedRows numbered(0, {context.state, 0});
      if (needs_numbered_rows(*map)) numbered = NumberedRows(context.state);
      return std::make_unique<InlineMapStage>(open_at(input, context_for(*map, context), numbered.input), map, context,
                                              statistics, numbered.next_row);
    };
  }
  if (const std::string_view why = checkpoint_blocker(plan); !why.empty()) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("a nested dataset cannot have {}: {}", plan.op->name(), why));
  }
  // The stages may refer to their operator.
  const auto op = as_stage(plan);
  struct Kept final : Stage {
    Kept(std::shared_ptr<const StageOperator> kept, std::unique_ptr<Stage> run)
        : op(std::move(kept)), stage(std::move(run)) {}
    Poll next(Block& out) override { return PollBudget::consume() ? stage->next(out) : Poll::kPending; }
    std::shared_ptr<const StageOperator> op;
    std::unique_ptr<Stage> stage;
  };
  std::vector<std::string> files;
  if (const Shards* shards = op->shards()) {
    for (const Shard& shard : shards->list()) files.push_back(shard.path);
  }
  return [op, inputs = std::move(inputs), files = std::move(files)](const StageContext& context) {
    if (context.disk != nullptr && context.disk->opened != nullptr) context.disk->opened->add(files);
    return std::make_unique<Kept>(op, op->open(inputs, context_for(*op, context)));
  };
}

}  // namespace millrace
