// Trains a masked language model on TFRecord shards; see train_mlm --help and docs/training.md.
#include "examples/mlm/mlm_run.h"
#include "examples/mlm/train_mlm_options.h"
#include "millrace/command_line/command_line.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"
#include "millrace/trainer/models/roberta.h"
#include "millrace/trainer/stop_signals.h"
#include "millrace/trainer/trainer.h"

namespace {

int run(int argc, char** argv) {
  using namespace millrace;
  const auto options = parse_train_mlm_options(argc, argv);
  if (!options) return 0;
  if (options->check) return check_output_folder(*options), 0;
  const WorkerLimit limit(checked_threads(options->threads));
  MlmRun mlm(*options);
  const RobertaForMaskedLm model(mlm.model_config());
  Trainer trainer(model, mlm.optimizer(model), mlm.schedule(), mlm.trainer_options(model));
  mlm.prepare(trainer);
  BatchSource& batches = mlm.start_batches(trainer);
  const StopSignals signals;
  const TrainingSummary summary = trainer.train(batches, [&] { return signals.requested(); });
  if (signals.requested()) return mlm.print_stopped(summary), signals.exit_code();
  mlm.finish(model, trainer.weights(), summary);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("train_mlm", [&] { return run(argc, argv); });
}
