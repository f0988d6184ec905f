#include "examples/mlm/mlm_run.h"

#include <array>
#include <filesystem>
#include <iostream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "examples/mlm/mlm_summary.h"
#include "examples/mlm/model_folder.h"
#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/whole_file.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/trainer/callbacks/early_stopping.h"
#include "millrace/trainer/callbacks/jsonl_log.h"
#include "millrace/trainer/callbacks/progress_bar.h"
#include "millrace/trainer/callbacks/step_trace.h"
#include "millrace/trainer/callbacks/tensorboard_log.h"
#include "millrace/trainer/metrics/accuracy.h"
#include "millrace/trainer/optimizers/adam.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// What a run leaves in OUT that is worth keeping; its logs go with it.
constexpr const char* kBest = "best";
constexpr const char* kCheckpoints = "checkpoints";
constexpr const char* kModel = "model";
constexpr std::array kResults = {kCheckpoints, kModel, kBest};
constexpr const char* kLog = "log.jsonl";
constexpr const char* kNewLog = "log.jsonl.new";  // until it takes the place of an earlier run's
constexpr const char* kTensorboard = "tensorboard";
constexpr const char* kEventFiles = "events.out.tfevents.";  // what their names begin with
constexpr const char* kSkipped = "skipped.jsonl";

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

[[noreturn]] void fail(std::string_view what, const fs::path& path, std::error_code code) {
  throw ErrorException(
      {.code = ErrorCode::kIo, .message = fmt::format("{}: {}", what, code.message()), .shard = path.string()});
}

// Links followed; neither needs to be there.
bool lies_below(const fs::path& path, const fs::path& folder) {
  if (path.empty()) return false;
  const fs::path relative = fs::weakly_canonical(path).lexically_relative(fs::weakly_canonical(folder));
  return !relative.empty() && *relative.begin() != "..";
}

// What is in OUT is then the run's own.
bool goes_on_in_place(const TrainMlmOptions& options) {
  return lies_below(options.resume, fs::path(options.out) / kCheckpoints);
}

// The log of a run that has ended, where this one does not go on with it.
bool replaces_log(const TrainMlmOptions& options) {
  return !options.synthetic && !goes_on_in_place(options) && fs::exists(fs::path(options.out) / kLog);
}

// Removes the earlier run that `--overwrite` gives up, and puts the new log in place of an earlier one, when this run
// has come through its first step; before that most of what can be wrong with it has been found. One that goes on from
// a checkpoint elsewhere replaces it when it starts. Of OUT/tensorboard only event files that were there before this
// run are removed. To be told before TensorboardLog.
class EarlierRunRemover final : public Callback {
 public:
  EarlierRunRemover(const TrainMlmOptions& options, bool log)
      : out_(options.out), results_(options.overwrite), log_(log), goes_on_(!options.resume.empty()) {}
  ~EarlierRunRemover() override {
    std::error_code code;
    if (due_ && log_) fs::remove(out_ / kNewLog, code);  // what is left for want of rights is replaced by the next run
  }
  EarlierRunRemover(const EarlierRunRemover&) = delete;
  EarlierRunRemover& operator=(const EarlierRunRemover&) = delete;

  void train_starts(const TrainingStart&) override {
    if (results_) find_event_files();
    // One that goes on may evaluate or end before it makes a step.
    if (goes_on_) remove();
  }
  void step_ends(const StepEnd&) override {
    if (due_) remove();
  }
  void train_ends(const TrainingSummary&) override {
    // Stopped before its first step: a log that stood alone is of no run that is still there.
    if (due_ && !results_) remove();
  }

 private:
  void find_event_files() {
    const fs::path folder = out_ / kTensorboard;
    std::error_code code;
    if (!fs::exists(folder, code)) return;
    for (fs::directory_iterator entry(folder, code); !code && entry != fs::end(entry); entry.increment(code)) {
      if (entry->path().filename().string().starts_with(kEventFiles)) event_files_.push_back(entry->path());
    }
    if (code) fail("cannot read the folder", folder, code);
  }

  void remove() {
    due_ = false;
    std::error_code code;
    if (log_) fs::rename(out_ / kNewLog, out_ / kLog, code);
    if (code) fail("cannot put the new log in its place", out_ / kLog, code);
    if (!results_) return;
    for (const char* name : kResults) remove_directory((out_ / name).string());
    for (const fs::path& file : event_files_) {
      if (!fs::remove(file, code) && code) fail("cannot remove it", file, code);
    }
  }

  fs::path out_;
  bool results_;  // those of an earlier run may be there
  bool log_;      // one is there
  bool goes_on_;
  bool due_ = true;
  std::vector<fs::path> event_files_;
};

}  // namespace

void check_output_folder(const TrainMlmOptions& options) {
  if (options.overwrite) {
    for (const char* name : kResults) {
      if (!lies_below(options.resume, fs::path(options.out) / name)) continue;
      refuse(fmt::format("--overwrite would remove {}, which --resume goes on from; leave --overwrite out",
                         options.resume));
    }
    return;
  }
  if (goes_on_in_place(options)) return;
  for (const char* name : kResults) {
    if (!fs::exists(fs::path(options.out) / name)) continue;
    if (options.resume.empty()) {
      refuse(fmt::format("{} holds {} of an earlier run; give --overwrite, --resume CHECKPOINT, or another --out",
                         options.out, name));
    }
    refuse(
        fmt::format("{} holds {} of an earlier run, and {} is not one of its checkpoints; give --overwrite, a "
                    "checkpoint in {}/{}, or another --out",
                    options.out, name, options.resume, options.out, kCheckpoints));
  }
}

MlmRun::MlmRun(TrainMlmOptions options)
    : options_(std::move(options)), input_(options_), at_error_([this] { return skipped_text(); }) {
  if (options_.synthetic) return;
  make_folder(options_.out);
  lock_.emplace(options_.out, "training in");
  check_output_folder(options_);
  std::error_code code;
  fs::remove(path(kNewLog), code);  // of a run that was killed before its first step
  if (code) fail("cannot remove it", path(kNewLog), code);
}

std::string MlmRun::path(const char* name) const { return (fs::path(options_.out) / name).string(); }

RobertaConfig MlmRun::model_config() const {
  return {.vocab_size = input_.vocab_size(),
          .hidden_size = options_.hidden,
          .num_hidden_layers = options_.layers,
          .num_attention_heads = options_.heads,
          .intermediate_size = 4 * options_.hidden,
          .max_position_embeddings = options_.max_length + input_.pad_token() + 1,
          .pad_token_id = input_.pad_token(),
          .bos_token_id = input_.cls_token(),
          .eos_token_id = input_.sep_token(),
          .hidden_dropout_prob = options_.dropout,
          .attention_probs_dropout_prob = options_.dropout};
}

std::unique_ptr<Optimizer> MlmRun::optimizer(const Model& model) const {
  return std::make_unique<Adam>(model.layout(), adam_weight_decay(options_.weight_decay));
}

std::unique_ptr<Schedule> MlmRun::schedule() const {
  return linear_warmup_decay(
      {.learning_rate = options_.learning_rate, .warmup_steps = options_.warmup_steps, .total_steps = options_.steps});
}

TrainerOptions MlmRun::trainer_options(const RobertaForMaskedLm& model) const {
  TrainerOptions options{.step = {.replicas = options_.replicas,
                                  .threads = options_.threads,
                                  .seed = static_cast<uint64_t>(options_.seed),
                                  .watchdog = options_.watchdog},
                         .accumulate = options_.accumulate,
                         .frozen = options_.freeze,
                         .total_steps = options_.steps,
                         .report_every = options_.report_every,
                         .token_feature = "input_ids",
                         .evaluation = input_.evaluation(),
                         .batches = input_.describe()};
  if (options.evaluation) {
    options.evaluate_every = options_.evaluate_every;
    options.metrics = [] {
      std::vector<std::unique_ptr<Metric>> metrics;
      metrics.push_back(std::make_unique<Accuracy>());
      return metrics;
    };
  }
  if (options_.activations == "bfloat16") options.step.activations = ActivationStorage::kBfloat16;
  if (options_.clip_norm > 0) options.step.clipping = Clipping{.norm = options_.clip_norm};
  if (options_.synthetic) return options;
  options.checkpoint_folder = path(kCheckpoints);
  options.checkpoints = {.keep_last = options_.keep_checkpoints, .more_files = [this, &model](const std::string& to) {
                           save_model_description(to, model, options_.tokenizer);
                           save_skipped_file(to);
                         }};
  options.checkpoint_every = options_.checkpoint_every;
  if (options.evaluation && options_.keep_best > 0) {
    options.keep_best = {.folder = path(kBest),
                         .models = {.keep = options_.keep_best, .replace_others = options_.overwrite},
                         .write = [this, &model](const std::string& directory, std::span<const float> weights) {
                           save_model_files(directory, model, weights, options_.tokenizer);
                         }};
  }
  return options;
}

void MlmRun::prepare(Trainer& trainer) const {
  if (!options_.resume.empty()) trainer.resume(options_.resume);
  const bool over_log = replaces_log(options_);
  if (options_.overwrite || over_log) {
    trainer.add_callback(std::make_unique<EarlierRunRemover>(options_, over_log));
  }
  trainer.add_callback(std::make_unique<ProgressBar>());
  if (!options_.trace.empty()) {
    trainer.add_callback(std::make_unique<StepTrace>(StepTraceOptions{.path = options_.trace}));
  }
  if (options_.synthetic) return;
  trainer.add_callback(std::make_unique<JsonlLog>(path(over_log ? kNewLog : kLog)));
  trainer.add_callback(std::make_unique<TensorboardLog>(
      TensorboardLogOptions{.folder = path(kTensorboard), .layout = &trainer.layout(), .weights = trainer.weights()}));
  if (options_.patience >= 0) {
    trainer.add_callback(std::make_unique<EarlyStopping>(EarlyStoppingOptions{.patience = options_.patience}));
  }
}

BatchSource& MlmRun::start_batches(const Trainer& trainer) {
  const auto& state = trainer.source_state();
  if (trainer.step() > 0 && !state) {
    throw ErrorException({.code = ErrorCode::kState,
                          .message = "the checkpoint has no source.state, so the place in the data is not known",
                          .shard = options_.resume});
  }
  take_over_skipped_file();
  return input_.start(state, path(kSkipped));
}

// The state in a checkpoint counts what was left out; with the list the checkpoint can go on in any folder. Lines that
// the list has beyond that count are cut when it goes on.
void MlmRun::save_skipped_file(const std::string& directory) const {
  if (!fs::exists(path(kSkipped))) return;
  write_atomically((fs::path(directory) / kSkipped).string(), read_whole_file(path(kSkipped)));
}

void MlmRun::take_over_skipped_file() const {
  const fs::path there = fs::path(options_.resume) / kSkipped;
  // Checkpoints of earlier versions have none: then the list is expected to be in OUT.
  if (options_.resume.empty() || !fs::exists(there)) return;
  write_atomically(path(kSkipped), read_whole_file(there.string()));
}

// What a run that ends early says about damaged shards; empty when nothing was left out.
std::string MlmRun::skipped_text() const {
  const SkipReport skipped = input_.skipped();
  if (skipped.counts.regions == 0) return {};
  return fmt::format("{}all of it is listed in {}\n", skipped.to_string(), path(kSkipped));
}

void MlmRun::print_stopped(const TrainingSummary& summary) const {
  std::cerr << skipped_text() << "stopped";
  if (!options_.synthetic) std::cerr << "; go on with the same options and --resume " << summary.last_checkpoint;
  std::cerr << "\n";
}

void MlmRun::finish(const RobertaForMaskedLm& model, std::span<const float> weights,
                    const TrainingSummary& summary) const {
  MlmSummary all{.training = summary,
                 .vocab_size = input_.vocab_size(),
                 .unigram_entropy = input_.unigram_entropy(),
                 .threads = checked_threads(options_.threads),
                 .skipped_list = path(kSkipped)};
  if (!options_.synthetic) {
    all.model = path(kModel);
    save_model_folder(all.model, model, weights, options_.tokenizer);
  }
  if (options_.damage.action == DamagePolicy::kSkip) all.skipped = input_.skipped();
  print_mlm_summary(all, options_.json);
}

}  // namespace millrace
