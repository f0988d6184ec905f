#pragma once

#include "millrace/pipeline/pipeline.h"
#include "millrace/trainer/batch_source.h"

namespace millrace {

/// What a trainer waits for, since the pipeline's start, when it waits: the busiest operator, if it is at work for over
/// 70% of the time that it could be; else the pipeline's bottleneck, which may be `consumer`.
std::string limiting_stage(const Statistics& statistics);

/// The batches of a running pipeline. Features of type `bytes` are left out: models read numbers.
///
///     PipelineSource source(train.start({.threads = 4, .state = trainer.source_state()}));
///     trainer.train(source);
///
/// The pipeline must be one that can be saved (see `Pipeline::save`).
class PipelineSource final : public BatchSource {
 public:
  explicit PipelineSource(Pipeline pipeline) : pipeline_(std::move(pipeline)) {}
  std::optional<GlobalBatch> next() override;
  std::optional<PipelineState> save() const override { return pipeline_.save(); }
  bool endless() const override { return pipeline_.endless(); }
  std::string limiting_stage() const override { return millrace::limiting_stage(pipeline_.stats()); }
  const Pipeline& pipeline() const { return pipeline_; }

 private:
  Pipeline pipeline_;
};

/// A batch of a pipeline as the trainer takes it, without a copy and without its features of bytes. Throws
/// `kWrongShape` for a ragged feature, for one whose first dimension is not the rows (a pipeline without `batch`), and
/// where all features are bytes.
GlobalBatch global_batch(Batch batch);

}  // namespace millrace
