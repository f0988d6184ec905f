#include "millrace/trainer/run/training_run.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include <fmt/format.h>

#include "millrace/command_line/skipped_at_error.h"
#include "millrace/command_line/skipped_log.h"
#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"
#include "millrace/trainer/callbacks/early_stopping.h"
#include "millrace/trainer/callbacks/jsonl_log.h"
#include "millrace/trainer/callbacks/progress_bar.h"
#include "millrace/trainer/callbacks/step_trace.h"
#include "millrace/trainer/callbacks/tensorboard_log.h"
#include "millrace/trainer/pipeline_source.h"
#include "millrace/trainer/run/bucket_output.h"
#include "millrace/trainer/run/local_copy.h"
#include "millrace/trainer/run/run_trainer.h"
#include "millrace/trainer/run/same_description.h"
#include "millrace/trainer/run/shape_limit.h"
#include "millrace/trainer/stop_signals.h"

namespace millrace {

/// The training batches, and the list of what they were made without.
class TrainingRun::Batches {
 public:
  /// `folder`: where the list is; null: there is none. `shown`: what its path is called.
  Batches(const RunOptions& options, const OutputFolder* folder,
          std::function<std::string(const std::string& path)> shown)
      : options_(options), folder_(folder), shown_(std::move(shown)) {}

  /// Starts them where the trainer is. Throws `kState` when its checkpoint does not say where.
  BatchSource& start(const Dataset& batches, const Trainer& trainer) {
    const auto& state = trainer.source_state();
    if (trainer.step() > 0 && !state) {
      throw ErrorException({.code = ErrorCode::kState,
                            .message = "the checkpoint has no source.state, so the place in the data is not known",
                            .shard = options_.resume});
    }
    if (folder_ != nullptr) {
      folder_->take_over_skipped_list();
      log_.emplace(folder_->skipped(), state ? state->skipped().regions : 0);
    }
    StartOptions start = start_options(options_);
    start.state = state;
    start.on_skip = [this](const SkippedRegion& region) {
      if (log_) log_->add(region);
    };
    return source_.emplace(batches.start(start));
  }
  SkipReport skipped() const { return source_ ? source_->pipeline().skipped() : SkipReport(); }
  /// What a run that ends early says about damaged shards; empty when nothing was left out.
  std::string skipped_text() const {
    const SkipReport left_out = skipped();
    if (left_out.counts.regions == 0) return {};
    return left_out.to_string() + (folder_ == nullptr
                                       ? std::string()
                                       : fmt::format("all of it is listed in {}\n", shown_(folder_->skipped())));
  }

 private:
  const RunOptions& options_;
  const OutputFolder* const folder_;
  const std::function<std::string(const std::string& path)> shown_;
  std::optional<SkippedLog> log_;
  std::optional<PipelineSource> source_;
};

namespace {

std::unique_ptr<BucketOutput> open_bucket(const std::string& program, const RunOptions& options) {
  if (!RemoteStorage::opens(options.out)) return nullptr;
  return std::make_unique<BucketOutput>(
      options, [program](const std::string& line) { std::cerr << fmt::format("{}: {}\n", program, line); });
}

// With local folders in the place of those in buckets.
RunOptions localized(const BucketOutput* bucket, RunOptions options) {
  options = with_newest_checkpoint(bucket == nullptr ? std::move(options) : bucket->localized(std::move(options)));
  options.resume = local_copy(options.resume);
  return options;
}

Better direction(const std::string& metric, const RunData& data) {
  return std::ranges::find(data.higher_is_better, metric) == data.higher_is_better.end() ? Better::kLower
                                                                                         : Better::kHigher;
}

}  // namespace

void check_evaluation(const RunOptions& options, const RunData& data) {
  if (data.evaluation || options.given_for_evaluations.empty()) return;
  throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("--{} is given, but there is nothing to evaluate on",
                                                                options.given_for_evaluations.front()));
}

TrainingRun::TrainingRun(std::string program, RunOptions options)
    : program_(std::move(program)),
      bucket_(open_bucket(program_, options)),
      options_(localized(bucket_.get(), std::move(options))) {
  if (!options_.out.empty()) folder_.emplace(options_);
}

TrainingRun::~TrainingRun() = default;

std::string TrainingRun::shown(const std::string& path) const {
  return bucket_ == nullptr ? path : bucket_->shown(path);
}

TrainerOptions TrainingRun::trainer_options(const RunModel& trained, const RunData& data) const {
  TrainerOptions options = step_options(options_, data);
  if (data.evaluation) {
    // Of what an evaluation leaves out there is no list: each evaluation tells.
    StartOptions start = start_options(options_);
    start.on_skip = [program = program_](const SkippedRegion& region) {
      std::cerr << program << ": evaluation without " << region.to_string() << "\n";
    };
    options.evaluation = [batches = *data.evaluation, start] {
      return std::make_unique<PipelineSource>(batches.start(start));
    };
    options.evaluate_every = options_.evaluate_every.steps;
    options.evaluate_every_epochs = options_.evaluate_every.epochs;
    options.metrics = data.metrics;
  }
  if (!folder_) return options;
  options.checkpoint_folder = folder_->checkpoints();
  options.checkpoints = {.keep_last = options_.keep_checkpoints,
                         .more_files =
                             [&](const std::string& to) {
                               trained.save_description(to);
                               folder_->save_skipped_list(to);
                             },
                         .replace_others = options_.overwrite};
  options.checkpoint_every = options_.checkpoint_every.steps;
  options.checkpoint_every_epochs = options_.checkpoint_every.epochs;
  if (data.evaluation && options_.keep_best > 0) {
    options.keep_best = {.folder = folder_->best(),
                         .models = {.keep = options_.keep_best,
                                    .metric = options_.keep_best_by,
                                    .better = direction(options_.keep_best_by, data),
                                    .replace_others = options_.overwrite},
                         .write = trained.save_weights,
                         .more_files = trained.save_description};
  }
  return options;
}

void TrainingRun::add_callbacks(Trainer& trainer, const RunPhase& last_phase, const RunData& data) const {
  if (folder_) {
    if (auto remover = folder_->earlier_run_remover()) trainer.add_callback(std::move(remover));
  }
  trainer.add_callback(std::make_unique<ProgressBar>());
  if (options_.resume.empty() && !options_.json) trainer.add_callback(std::make_unique<DataLook>(data.look));
  if (!options_.trace.empty()) {
    trainer.add_callback(std::make_unique<StepTrace>(StepTraceOptions{.path = options_.trace}));
  }
  if (data.evaluation && options_.patience >= 0) {
    EarlyStoppingOptions stopping{.metric = options_.keep_best_by,
                                  .better = direction(options_.keep_best_by, data),
                                  .patience = options_.patience};
    if (last_phase.first_step > 0) stopping.after_step = last_phase.first_step;
    trainer.add_callback(std::make_unique<EarlyStopping>(std::move(stopping)));
  }
  if (!folder_) return;
  trainer.add_callback(
      std::make_unique<JsonlLog>(folder_->log(), [this](const std::string& path) { return shown(path); }));
  trainer.add_callback(std::make_unique<TensorboardLog>(TensorboardLogOptions{
      .folder = folder_->tensorboard(), .layout = &trainer.layout(), .weights = trainer.weights()}));
  if (bucket_ != nullptr) trainer.add_callback(bucket_->sender());
}

int TrainingRun::train(const RunModel& trained, const RunData& data,
                       const std::function<std::vector<SummaryLine>(const TrainingSummary&)>& lines) {
  if (bucket_ == nullptr) return train_in_folder(trained, data, lines);
  try {
    return train_in_folder(trained, data, lines);
  } catch (const ErrorException&) {
    bucket_->rethrow_shown();
  }
}

int TrainingRun::train_in_folder(const RunModel& trained, const RunData& data,
                                 const std::function<std::vector<SummaryLine>(const TrainingSummary&)>& lines) {
  check_evaluation(options_, data);
  if (!trained.save_description || !trained.save_weights) {
    throw ErrorException(ErrorCode::kInvalidArgument, "RunModel: save_description and save_weights are needed");
  }
  const int threads = checked_threads(options_.threads);
  const WorkerLimit limit(threads);
  Batches batches(options_, folder_ ? &*folder_ : nullptr, [this](const std::string& path) { return shown(path); });
  // Before the trainer: an error finds its progress bar gone.
  const SkippedAtError at_error([&] { return batches.skipped_text(); });
  const std::vector<RunPhase> phases = phases_of(options_, data.batches_per_epoch);
  const auto trainer = make_trainer(trained.model, phases, trainer_options(trained, data), options_.resume);
  if (!options_.resume.empty()) check_same_description(options_.resume, trained.save_description);
  add_callbacks(*trainer, phases.back(), data);
  auto shape_limit = std::make_unique<ShapeLimit>(data.max_shapes);
  const ShapeLimit& shapes = *shape_limit;
  trainer->add_callback(std::move(shape_limit));
  BatchSource& source = batches.start(data.training, *trainer);
  const StopSignals signals;
  TrainingSummary summary = trainer->train(source, [&] { return signals.requested(); });
  if (signals.requested()) {
    if (bucket_ != nullptr) bucket_->finish();
    std::cerr << batches.skipped_text() << "stopped";
    if (folder_)
      std::cerr << " at " << shown(summary.last_checkpoint) << "; go on with the same options and --resume last";
    std::cerr << "\n";
    return signals.exit_code();
  }
  if (summary.step == 0 && summary.data_ended) {
    throw ErrorException(ErrorCode::kTruncated,
                         "the training data gave no batch: no step was made, no model is written");
  }
  for (BestModel& best : summary.best_models) best.path = shown(best.path);
  RunSummary all{
      .training = summary, .best_by = options_.keep_best_by, .num_shapes = shapes.num_shapes(), .threads = threads};
  if (folder_) {
    all.model = shown(folder_->model());
    all.skipped_list = shown(folder_->skipped());
    AtomicDirectory whole(folder_->model());
    trained.save_weights(whole.temporary_path(), trainer->weights());
    trained.save_description(whole.temporary_path());
    whole.commit();
    if (bucket_ != nullptr) bucket_->finish();
  }
  if (lines) all.lines = lines(summary);
  if (options_.damage.action == DamagePolicy::kSkip) all.skipped = batches.skipped();
  print_summary(all, options_.json);
  return 0;
}

}  // namespace millrace
