#include "examples/frozen_features/own_loop.h"

#include <iostream>
#include <optional>
#include <stdexcept>

#include "millrace/pipeline/pipeline.h"
#include "millrace/trainer/checkpoint/training_checkpoint.h"
#include "millrace/trainer/pipeline_source.h"
#include "millrace/trainer/step/step_graph.h"
#include "millrace/trainer/stop_signals.h"

namespace millrace {

bool train(const Model& model, const Optimizer& optimizer, const Schedule& schedule, const Dataset& batches,
           const LoopOptions& options, const StopSignals& signals, TrainedState& state) {
  CheckpointFolder checkpoints(options.out + "/checkpoints", {.keep_last = 2});
  TrainingProgress done{.seed = options.seed, .replicas = options.replicas, .model = model.describe()};
  std::optional<PipelineState> place;  // in the data
  model.initialize(state.weights.span(), options.seed);
  if (const auto newest = newest_checkpoint(options.out + "/checkpoints")) {
    const TrainingProgress there =
        load_checkpoint(*newest, model.layout(), state, optimizer, schedule, options.batches);
    need_same_as_checkpoint(*newest, "the model", there.model, done.model);
    done = there;
    place = read_source_state(*newest);
  }
  const auto save = [&](const Pipeline& pipeline) {
    checkpoints.save(done, model.layout(), state, optimizer, schedule, options.batches, pipeline.save());
  };

  StepGraph graph(model, optimizer, state,
                  {.replicas = options.replicas, .threads = options.threads, .seed = options.seed});
  Pipeline pipeline = batches.start({.threads = options.threads, .state = place});
  while (done.step < options.steps && !signals.requested()) {
    const GlobalBatch batch = global_batch(pipeline.next().value());
    const StepNumbers numbers{.step = done.step, .batch = done.micro_batches, .update = done.updates + 1};
    const StepReport report = graph.train(batch.view, numbers, schedule.learning_rate(done.updates));
    if (!report.updated) throw std::runtime_error(report.skip_reason);
    ++done.step;
    ++done.micro_batches;
    ++done.updates;
    done.unreported.add(report.result);  // sums and weights over all replicas
    if (done.step % options.report_every == 0 || done.step == options.steps) {
      const LossSum loss = done.unreported.loss(0);
      std::cerr << "step " << done.step << " of " << options.steps << ": loss " << loss.sum / loss.weight;
      for (const MetricSum& metric : done.unreported.metrics) std::cerr << ", " << metric.name << " " << metric.value();
      std::cerr << "\n";
      done.unreported = {};
    }
    if (done.step % options.checkpoint_every == 0 && done.step < options.steps) save(pipeline);
  }
  save(pipeline);
  return done.step >= options.steps;
}

}  // namespace millrace
