// Trains a masked language model on TFRecord shards; see train_mlm --help and docs/training.md.
#include <iostream>
#include <optional>

#include "command_line/command_line.h"
#include "command_line/skipped_at_error.h"
#include "command_line/skipped_log.h"
#include "examples/mlm/mlm_data.h"
#include "examples/mlm/mlm_run.h"
#include "examples/mlm/train_mlm_options.h"
#include "formats/error.h"
#include "pipeline/executor.h"
#include "pipeline/worker_limit.h"
#include "trainer/callbacks/jsonl_log.h"
#include "trainer/callbacks/progress_bar.h"
#include "trainer/models/roberta.h"
#include "trainer/optimizers/adam.h"
#include "trainer/pipeline_source.h"
#include "trainer/stop_signals.h"
#include "trainer/trainer.h"

namespace {

int run(int argc, char** argv) {
  using namespace millrace;
  const auto options = parse_train_mlm_options(argc, argv);
  if (!options) return 0;
  if (options->check) return check_output_folder(*options), 0;
  const WorkerLimit limit(checked_threads(options->threads));
  const MlmRun mlm(*options);
  const RobertaForMaskedLm model(mlm.model_config());
  // Before the trainer, so that an error finds its progress bar gone when it says what was skipped.
  std::optional<SkippedLog> skipped_log;
  std::optional<PipelineSource> batches;
  const auto skipped = [&] { return batches ? batches->pipeline().skipped() : SkipReport(); };
  const SkippedAtError at_error([&] { return mlm.skipped_text(skipped()); });

  Trainer trainer(model, std::make_unique<Adam>(model.layout(), adam_weight_decay(options->weight_decay)),
                  linear_warmup_decay({.learning_rate = options->learning_rate,
                                       .warmup_steps = options->warmup_steps,
                                       .total_steps = options->steps}),
                  mlm.trainer_options(model));
  if (!options->resume.empty()) trainer.resume(options->resume);
  trainer.add_callback(mlm.earlier_run_remover());
  trainer.add_callback(std::make_unique<ProgressBar>());
  trainer.add_callback(std::make_unique<JsonlLog>(mlm.log_file()));

  const auto state = trainer.source_state();
  if (trainer.step() > 0 && !state) {
    throw ErrorException({.code = ErrorCode::kState,
                          .message = "the checkpoint has no source.state, so the place in the data is not known",
                          .shard = options->resume});
  }
  mlm.take_over_skipped_file();
  skipped_log.emplace(mlm.skipped_file(), state ? state->skipped().regions : 0);
  batches.emplace(
      mlm.training_batches().start({.threads = options->threads,
                                    .state = state,
                                    .on_skip = [&](const SkippedRegion& region) { skipped_log->add(region); },
                                    .watchdog = options->watchdog,
                                    .on_stall = exit_on_stall}));
  const StopSignals signals;
  const TrainingSummary summary = trainer.train(*batches, [&] { return signals.requested(); });
  if (signals.requested()) {
    std::cerr << mlm.skipped_text(skipped()) << "stopped; go on with the same options and --resume "
              << summary.last_checkpoint << "\n";
    return signals.exit_code();
  }
  mlm.save_model(model, trainer.weights());
  mlm.print_summary(summary, skipped());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("train_mlm", [&] { return run(argc, argv); });
}
