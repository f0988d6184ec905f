#include "millrace/trainer/run/run_spec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <variant>

#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/stall.h"
#include "millrace/trainer/checkpoint/training_checkpoint.h"
#include "millrace/trainer/pipeline_source.h"
#include "millrace/trainer/run/local_copy.h"
#include "millrace/trainer/run/missing_data.h"
#include "millrace/trainer/run/output_places.h"
#include "millrace/trainer/run/run_trainer.h"
#include "millrace/trainer/run/same_description.h"
#include "millrace/trainer/run/shape_limit.h"
#include "millrace/trainer/step/distributor.h"
#include "millrace/trainer/trained_state.h"
#include "millrace/trainer/trainer.h"

namespace millrace {
namespace {

constexpr int64_t kBatchesToLookAt = 10;

// Values of a feature, and how many of them are 0.
struct Zeros {
  int64_t values = 0;
  int64_t zeros = 0;
};

void count_zeros(const FeatureView& feature, Zeros& count) {
  std::visit(
      [&](auto values) {
        count.values += static_cast<int64_t>(values.size());
        count.zeros += std::ranges::count(values, 0);
      },
      feature.any_values());
}

std::vector<FeatureSpec> specs_of(const BatchView& batch) {
  std::vector<FeatureSpec> specs;
  for (const FeatureView& feature : batch.features()) {
    const DType dtype =
        std::visit([]<typename T>(std::span<const T>) { return DTypeOf<T>::value; }, feature.any_values());
    specs.push_back(
        {.name = feature.name(), .dtype = dtype, .shape = Shape(feature.shape().begin(), feature.shape().end())});
  }
  return specs;
}

struct Silent final : GradientListener {
  void gradient_final(int) override {}
};

// By a step of the first replica, which has most rows; nothing is changed by it.
int64_t activations_of(const RunOptions& options, const RunParts& parts, const RunPhase& phase,
                       const BatchView& batch) {
  const Model& model = parts.trained.model;
  const TrainedState trained(model.layout(), *phase.optimizer(model.layout()), phase.options.freeze);
  const std::optional<std::vector<int>> trainable = trained.trainable_ids();
  FlatBuffer weights(model.layout().size());
  model.initialize(weights.span(), static_cast<uint64_t>(options.seed));
  FlatBuffer gradients(model.layout().size());
  const std::unique_ptr<Workspace> workspace = model.make_workspace();
  Silent listener;
  const StepGraphOptions step = step_options(options, parts.data).step;
  ReplicaContext context{.seed = step.seed,
                         .gradients = gradients.span(),
                         .activations = step.activations,
                         .trainable = trainable,
                         .listener = &listener,
                         .workspace = workspace.get()};
  (void)model.train_step(Distributor(options.replicas).split(batch).front(), weights.data(), context);
  const int64_t replicas = std::min<int64_t>(options.replicas, batch.rows());
  return workspace->bytes() * std::min<int64_t>(replicas, checked_threads(options.threads));
}

void look_at_batches(const RunOptions& options, const RunParts& parts, RunSpec& spec, RunSpec::Memory& memory) {
  const RunData& data = parts.data;
  PipelineSource source(data.training.start(start_options(options)));
  ShapeLimit shapes(data.max_shapes);
  std::vector<Zeros> zeros(data.masks.size());
  for (; spec.batches_looked_at < kBatchesToLookAt; ++spec.batches_looked_at) {
    std::optional<GlobalBatch> batch = source.next();
    if (!batch) break;
    if (spec.features.empty()) {
      spec.features = specs_of(batch->view);
      const auto most = std::ranges::max_element(spec.phases, {}, &RunSpec::Phase::num_trained);
      memory.activations = activations_of(options, parts, most->phase, batch->view);
    }
    shapes.batch_inputs(*batch, spec.batches_looked_at);
    for (size_t i = 0; i < zeros.size(); ++i) count_zeros(batch->view.feature(data.masks[i]), zeros[i]);
  }
  spec.num_shapes = shapes.num_shapes();
  std::vector<std::pair<std::string, double>> padding;
  for (size_t i = 0; i < zeros.size(); ++i) {
    if (zeros[i].values == 0) continue;
    padding.emplace_back(data.masks[i], static_cast<double>(zeros[i].zeros) / static_cast<double>(zeros[i].values));
  }
  if (spec.batches_looked_at > 0) spec.padding = std::move(padding);
  const Statistics statistics = source.pipeline().stats();
  memory.pipeline = statistics.peak_buffer_bytes;
  for (const StageReport& stage : statistics.stages) {
    if (!stage.name.ends_with(":cache") || stage.rows == 0) continue;
    memory.cache += std::max<int64_t>(0, data.rows_per_epoch - stage.rows) * (stage.bytes / stage.rows);
  }
  memory.pipeline_budget = statistics.memory_budget;
}

void add_epoch(const RunOptions& options, const RunData& data, RunSpec& spec) {
  if (data.batches_per_epoch == 0) return;
  spec.batches_per_epoch = data.batches_per_epoch;
  spec.leaves_damage_out = options.damage.action == DamagePolicy::kSkip;
  spec.steps_per_epoch = steps_of(data.batches_per_epoch, options.accumulate);
  if (data.rows_per_epoch == 0) return;
  const int64_t more = data.rows_per_epoch - data.batches_per_epoch * options.global_batch;
  spec.dropped_rows = std::max<int64_t>(0, more);
  spec.short_batch = more < 0 ? options.global_batch + more : 0;
  if (more < 0) spec.rows_per_replica_of_short_batch = Distributor(options.replicas).sizes(*spec.short_batch);
}

// As AllReduce keeps them, and one more for the sum over several batches.
int64_t gradient_buffers(const RunOptions& options) {
  const int groups = std::max(1, (options.replicas + 3) / 4);
  const int levels = std::bit_width(static_cast<unsigned>(groups - 1));
  const int live = std::min(options.replicas, checked_threads(options.threads) + 3 + levels);
  return live + (options.accumulate > 1 ? 1 : 0);
}

void add_model(const RunOptions& options, const Model& model, RunSpec& spec, RunSpec::Memory& memory) {
  const ParameterLayout& layout = model.layout();
  spec.model = model.describe();
  spec.num_parameters = layout.num_elements();
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  memory.weights = kFloat * layout.size();
  memory.gradient_buffers = gradient_buffers(options);
  for (RunSpec::Phase& phase : spec.phases) {
    phase.phase.check_frozen(layout);
    const auto optimizer = phase.phase.optimizer(layout);
    phase.optimizer = optimizer->describe();
    phase.num_trained = TrainedState(layout, *optimizer, phase.phase.options.freeze).num_trained(layout);
    memory.slots =
        std::max(memory.slots, kFloat * *phase.num_trained * static_cast<int64_t>(optimizer->slot_names().size()));
    memory.gradients = std::max(memory.gradients, kFloat * *phase.num_trained * memory.gradient_buffers);
  }
}

// What a model measures beside its loss says an evaluation alone.
void check_metric(const RunOptions& options, const RunParts& parts, const RunPhase& phase) {
  const RunData& data = parts.data;
  const bool asked = options.keep_best > 0 || options.patience >= 0;
  if (!asked || options.keep_best_by == "loss" || !data.evaluation) return;
  Trainer trainer(parts.trained.model, phase.optimizer(parts.trained.model.layout()), phase.schedule(),
                  {.step = {.replicas = options.replicas, .threads = options.threads}, .metrics = data.metrics});
  PipelineSource source(data.evaluation->take(1).start(start_options(options)));
  (void)trainer.evaluate(source).value(options.keep_best_by);
}

// The checkpoint that the run goes on from, as far as it can be looked at without data.
void look_at_checkpoint(const RunOptions& options, const std::optional<RunParts>& parts, RunSpec& spec) {
  if (options.resume.empty()) return;
  spec.resumed_at = read_progress(options.resume).step;
  if (!parts || spec.phases.empty()) return;
  std::vector<RunPhase> phases;
  phases.reserve(spec.phases.size());
  for (const RunSpec::Phase& phase : spec.phases) phases.push_back(phase.phase);
  (void)make_trainer(parts->trained.model, phases, step_options(options, parts->data), options.resume);
  check_same_description(options.resume, parts->trained.save_description);
}

}  // namespace

RunSpec run_spec(const RunOptions& options, const std::function<RunParts()>& make) {
  RunSpec spec{.rows_per_replica = Distributor(options.replicas).sizes(options.global_batch)};
  std::optional<RunParts> parts;
  try {
    parts.emplace(make());
  } catch (const MissingData& error) {
    spec.why_not_known = error.what();
  }
  if (parts || !counts_epochs(options)) {
    for (RunPhase& phase : phases_of(options, parts ? parts->data.batches_per_epoch : 0)) {
      spec.phases.push_back({.phase = phase, .optimizer = phase.options.optimizer});
    }
  }
  look_at_checkpoint(options, parts, spec);
  if (!parts) return spec;
  check_evaluation(options, parts->data);
  RunSpec::Memory memory;
  add_epoch(options, parts->data, spec);
  add_model(options, parts->trained.model, spec, memory);
  check_metric(options, *parts, spec.phases.front().phase);
  look_at_batches(options, *parts, spec, memory);
  spec.memory = memory;
  return spec;
}

int check_run(const RunOptions& given, const std::function<RunParts()>& make) {
  check_output_places(given);
  RunOptions options = with_newest_checkpoint(given);
  if (!options.out.empty()) check_output_folder(options);
  // A cache that is not there holds nothing yet, and is not made.
  if (!std::filesystem::exists(options.disk_cache.folder)) options.disk_cache = {};
  options.resume = local_copy(options.resume);
  print_run_spec(run_spec(options, make), options.json);
  return 0;
}

}  // namespace millrace
