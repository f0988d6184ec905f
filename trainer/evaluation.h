#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "millrace/trainer/batch_source.h"
#include "millrace/trainer/callback.h"
#include "millrace/trainer/metrics/metric.h"
#include "millrace/trainer/step/step_graph.h"

namespace millrace {

/// Throws `kInvalidArgument` for a source that never ends: an evaluation takes all its rows.
void need_end(const BatchSource& source);

/// The loss of the graph's model over all rows of a source, in order, and the metrics of its predictions. `stop` is
/// asked before each batch; nothing is returned where it said yes. Throws as `need_end` and as the graph, and
/// `kInvalidArgument` for two numbers of one name.
std::optional<EvaluationReport> evaluate(StepGraph& graph, BatchSource& source,
                                         const std::vector<std::unique_ptr<Metric>>& metrics,
                                         const std::function<bool()>& stop = nullptr);

}  // namespace millrace
