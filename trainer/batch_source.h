#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "millrace/pipeline/pipeline_state.h"
#include "millrace/trainer/batch_view.h"

namespace millrace {

/// A global batch and what keeps its values alive.
struct GlobalBatch {
  BatchView view;
  std::shared_ptr<const void> owner = {};  ///< may be null when the values outlive the batch anyway
  int64_t epoch = 0;                       ///< of its first row, from 0; never falls from one batch to the next
};

/// Where a trainer gets its global batches from: a running pipeline (`PipelineSource`), rows in memory, a test.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// The next batch, or nothing at the end of the data; waits for it. What it throws ends the training.
  virtual std::optional<GlobalBatch> next() = 0;
  /// Where the source is, after the last batch: what a checkpoint keeps, so that a source can go on from there. Cheap.
  /// Default: nothing, a source that is brought to its place by other means.
  virtual std::optional<PipelineState> save() const { return std::nullopt; }
  /// Whether it is known never to end: an evaluation refuses such a source. Default: false
  virtual bool endless() const { return false; }
  /// What keeps this source from being faster, for reports: the name of a stage, `consumer` when nothing does. Default:
  /// empty, unknown.
  virtual std::string limiting_stage() const { return {}; }
};

}  // namespace millrace
