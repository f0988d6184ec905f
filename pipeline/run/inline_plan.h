#pragma once

#include "millrace/ops/stage.h"
#include "millrace/pipeline/plan/plan.h"
#include "millrace/pipeline/run/stage_statistics.h"

namespace millrace {

/// Opens a plan in the chain of whoever polls it, without segments: how a dataset runs that is made while the pipeline
/// runs. `statistics` counts what its maps drop, and must outlive the stages. Throws `kInvalidArgument` for an operator
/// whose stages have no states.
[[nodiscard]] OpenStage inline_opener(const PlanNode& plan, StageStatistics& statistics);

}  // namespace millrace
