#include "examples/mlm/mlm_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "examples/mlm/model_folder.h"
#include "formats/error.h"
#include "formats/storage/atomic_directory.h"
#include "formats/storage/atomic_file.h"
#include "formats/storage/whole_file.h"
#include "pipeline/executor.h"
#include "tokenizer/tokenizer.h"
#include "trainer/pipeline_source.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// What a run leaves in OUT that is worth keeping; its log goes with it.
constexpr const char* kBest = "best";
constexpr const char* kCheckpoints = "checkpoints";
constexpr std::array kResults = {kCheckpoints, "model", kBest};
constexpr const char* kLog = "log.jsonl";
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

int32_t special_token(const Tokenizer& tokenizer, std::string_view token, const std::string& path) {
  const auto id = tokenizer.id_of(token);
  if (!id) refuse(fmt::format("the tokenizer has no token {} ({})", token, path));
  return *id;
}

// Of the validation shards there is no list: each evaluation tells.
void print_skipped(const SkippedRegion& region) {
  std::cerr << "train_mlm: evaluation without " << region.to_string() << "\n";
}

double peak_rss_mb() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

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

MlmRun::MlmRun(TrainMlmOptions options) : options_(std::move(options)), shards_(MlmShards::find(options_.shards)) {
  const Tokenizer tokenizer = Tokenizer::load(options_.tokenizer);
  if (options_.vocab_size == 0) options_.vocab_size = tokenizer.size();
  if (options_.vocab_size < tokenizer.size()) {
    refuse(fmt::format("--vocab-size is {}, but the tokenizer has {} tokens", options_.vocab_size, tokenizer.size()));
  }
  pad_token_ = special_token(tokenizer, "<pad>", options_.tokenizer);
  cls_token_ = special_token(tokenizer, "[CLS]", options_.tokenizer);
  sep_token_ = special_token(tokenizer, "[SEP]", options_.tokenizer);
  data_ = {.max_length = options_.max_length,
           .global_batch = options_.global_batch,
           .shuffle = options_.shuffle,
           .vocab_size = options_.vocab_size,
           .mask_token = special_token(tokenizer, "[MASK]", options_.tokenizer),
           .special_tokens = {cls_token_, sep_token_},
           .seed = static_cast<uint64_t>(options_.seed),
           .damage = options_.damage};
  const uint64_t rows = shards_.train.num_records().value();
  if (rows < static_cast<uint64_t>(options_.global_batch)) {
    refuse(
        fmt::format("the training shards have {} rows, less than one global batch of {}", rows, options_.global_batch));
  }
  check_statistics(tokenizer);
  if (!shards_.validation && options_.keep_best > 0) {
    refuse(fmt::format("--keep-best needs validation shards, and {} has none", options_.shards));
  }
  if (!shards_.validation) std::cerr << "train_mlm: no validation shards, so there is no evaluation\n";
  make_folder(options_.out);
  lock_.emplace(options_.out, "training in");
  check_output_folder(options_);
  if (!goes_on_in_place(options_)) {
    std::error_code code;
    fs::remove(fs::path(options_.out) / kLog, code);
    if (code) fail("cannot remove it", fs::path(options_.out) / kLog, code);
  }
}

// The set is the one that prepare_tfrecord_shards wrote, for this tokenizer and length, and all of it is there.
void MlmRun::check_statistics(const Tokenizer& tokenizer) const {
  if (!shards_.statistics) {
    std::cerr << "train_mlm: no statistics.json in " << options_.shards << ": whether the set is whole is not known\n";
    return;
  }
  const ShardStatistics& statistics = *shards_.statistics;
  if (statistics.max_length != options_.max_length) {
    refuse(fmt::format("--max-length is {}, but the records of {} have {} tokens", options_.max_length, options_.shards,
                       statistics.max_length));
  }
  if (statistics.vocabulary_size != tokenizer.size()) {
    refuse(fmt::format("the shards in {} were written with a tokenizer of {} tokens, {} has {}", options_.shards,
                       statistics.vocabulary_size, options_.tokenizer, tokenizer.size()));
  }
  const auto check_split = [&](Split split, const std::optional<Shards>& there) {
    const SplitStatistics& expected = statistics.of(split);
    const auto files = there ? static_cast<int64_t>(there->size()) : 0;
    const auto records = there ? static_cast<int64_t>(there->num_records().value()) : 0;
    if (files == expected.shards && records == expected.records) return;
    refuse(fmt::format("shards are missing: {}/{} has {} files with {} records, statistics.json says {} with {}",
                       options_.shards, to_string(split), files, records, expected.shards, expected.records));
  };
  check_split(Split::kTrain, shards_.train);
  check_split(Split::kValidation, shards_.validation);
}

std::unique_ptr<Callback> MlmRun::earlier_run_remover() const {
  class Remover final : public Callback {
   public:
    explicit Remover(const TrainMlmOptions& options) : options_(options) {}
    void train_starts(const TrainingStart&) override {
      if (options_.resume.empty()) return;
      // One that goes on may evaluate or end before it makes a step. Without --overwrite there is nothing, or its own.
      due_ = false;
      if (options_.overwrite) remove();
    }
    void step_ends(const StepEnd&) override {
      if (std::exchange(due_, false)) remove();
    }

   private:
    void remove() const {
      for (const char* name : kResults) remove_directory((fs::path(options_.out) / name).string());
    }

    const TrainMlmOptions& options_;
    bool due_ = true;
  };
  return std::make_unique<Remover>(options_);
}

// What a training that goes on must have in common with the one that it goes on from, beside what its checkpoint holds.
std::string MlmRun::batches_text() const {
  return fmt::format("{} rows of {} tokens in {} shards, global batch {}, shuffle {}, vocabulary {}, dropout {}",
                     shards_.train.num_records().value(), options_.max_length, shards_.train.size(),
                     options_.global_batch, options_.shuffle, options_.vocab_size, options_.dropout);
}

RobertaConfig MlmRun::model_config() const {
  return {.vocab_size = options_.vocab_size,
          .hidden_size = options_.hidden,
          .num_hidden_layers = options_.layers,
          .num_attention_heads = options_.heads,
          .intermediate_size = 4 * options_.hidden,
          .max_position_embeddings = options_.max_length + pad_token_ + 1,
          .pad_token_id = pad_token_,
          .bos_token_id = cls_token_,
          .eos_token_id = sep_token_,
          .hidden_dropout_prob = options_.dropout,
          .attention_probs_dropout_prob = options_.dropout};
}

TrainerOptions MlmRun::trainer_options(const RobertaForMaskedLm& model) const {
  TrainerOptions options{.step = {.replicas = options_.replicas,
                                  .threads = options_.threads,
                                  .seed = static_cast<uint64_t>(options_.seed)},
                         .accumulate = options_.accumulate,
                         .total_steps = options_.steps,
                         .report_every = options_.report_every,
                         .token_feature = "input_ids",
                         .batches = batches_text(),
                         .checkpoint_folder = (fs::path(options_.out) / kCheckpoints).string(),
                         .checkpoints = {.keep_last = options_.keep_checkpoints,
                                         .more_files =
                                             [this, &model](const std::string& directory) {
                                               save_model_description(directory, model, options_.tokenizer);
                                               save_skipped_file(directory);
                                             }},
                         .checkpoint_every = options_.checkpoint_every};
  if (shards_.validation) {
    options.evaluation = [batches = mlm_evaluation_batches(shards_, data_), threads = options_.threads,
                          watchdog = options_.watchdog] {
      return std::make_unique<PipelineSource>(batches.start(
          {.threads = threads, .on_skip = print_skipped, .watchdog = watchdog, .on_stall = exit_on_stall}));
    };
    options.evaluate_every = options_.evaluate_every;
    if (options_.keep_best > 0) {
      options.keep_best = {.folder = (fs::path(options_.out) / kBest).string(),
                           .models = {.keep = options_.keep_best, .replace_others = options_.overwrite},
                           .write = [this, &model](const std::string& directory, std::span<const float> weights) {
                             save_model_files(directory, model, weights, options_.tokenizer);
                           }};
    }
  }
  return options;
}

// The state in a checkpoint counts what was left out; with the list the checkpoint can go on in any folder. Lines that
// the list has beyond that count are cut when it goes on.
void MlmRun::save_skipped_file(const std::string& directory) const {
  if (!fs::exists(skipped_file())) return;
  write_atomically((fs::path(directory) / kSkipped).string(), read_whole_file(skipped_file()));
}

void MlmRun::take_over_skipped_file() const {
  const fs::path there = fs::path(options_.resume) / kSkipped;
  // Checkpoints of earlier versions have none: then the list is expected to be in OUT.
  if (options_.resume.empty() || !fs::exists(there)) return;
  write_atomically(skipped_file(), read_whole_file(there.string()));
}

std::string MlmRun::skipped_text(const SkipReport& skipped) const {
  if (skipped.counts.regions == 0) return {};
  return fmt::format("{}all of it is listed in {}\n", skipped.to_string(), skipped_file());
}

void MlmRun::save_model(const RobertaForMaskedLm& model, std::span<const float> weights) const {
  save_model_folder(options_.out + "/model", model, weights, options_.tokenizer);
}

void MlmRun::print_summary(const TrainingSummary& summary, const SkipReport& skipped) const {
  const bool skips = options_.damage.action == DamagePolicy::kSkip;
  const double* unigram_entropy = nullptr;
  if (shards_.statistics && shards_.statistics->unigram_entropy)
    unigram_entropy = &*shards_.statistics->unigram_entropy;
  const double uniform_loss = std::log(static_cast<double>(options_.vocab_size));
  const TrainingReport& whole = summary.whole;
  if (options_.json) {
    nlohmann::ordered_json json = {{"steps", summary.step},
                                   {"first_loss", nullptr},
                                   {"ln_vocab_size", uniform_loss},
                                   {"evaluation_loss", nullptr},
                                   {"evaluation_rows", nullptr},
                                   {"unigram_entropy", nullptr},
                                   {"seconds", whole.seconds},
                                   {"tokens_per_s", whole.tokens_per_s},
                                   {"input_wait_share", whole.input_wait_share},
                                   {"limiting_stage", whole.limiting_stage},
                                   {"skipped_updates", whole.skipped_updates},
                                   {"threads", checked_threads(options_.threads)},
                                   {"peak_rss_mb", peak_rss_mb()},
                                   {"model", options_.out + "/model"}};
    if (summary.first_loss) json["first_loss"] = *summary.first_loss;
    if (summary.last_evaluation) {
      json["evaluation_loss"] = summary.last_evaluation->loss;
      json["evaluation_rows"] = summary.last_evaluation->rows;
    }
    if (unigram_entropy) json["unigram_entropy"] = *unigram_entropy;
    for (const BestModel& best : summary.best_models) {
      json["best"].push_back({{"step", best.step}, {"evaluation_loss", best.value}, {"model", best.path}});
    }
    if (skips) {
      json["skipped"] = {{"regions", skipped.counts.regions},
                         {"records", skipped.counts.records},
                         {"regions_of_unknown_records", skipped.counts.regions_of_unknown_records},
                         {"bytes", skipped.counts.bytes},
                         {"list", skipped_file()}};
    }
    std::cout << json.dump() << "\n";
    return;
  }
  const auto row = [](std::string_view name, const std::string& value) {
    std::cout << fmt::format("{:<22}{}\n", name, value);
  };
  row("steps", fmt::format("{}", summary.step));
  if (summary.first_loss) {
    row("first loss", fmt::format("{:.4f}  (ln of the vocabulary: {:.4f})", *summary.first_loss, uniform_loss));
  }
  if (summary.last_evaluation) {
    row("evaluation loss",
        fmt::format("{:.4f}  over {} rows", summary.last_evaluation->loss, summary.last_evaluation->rows));
  }
  if (unigram_entropy) row("unigram entropy", fmt::format("{:.4f}", *unigram_entropy));
  row("time in steps", fmt::format("{:.1f} s, {:.0f} tokens/s on {} threads", whole.seconds, whole.tokens_per_s,
                                   checked_threads(options_.threads)));
  // A consumer that the input waits for limits nothing.
  const bool named = !whole.limiting_stage.empty() && whole.limiting_stage != "consumer";
  row("waiting for input", fmt::format("{:.2f}%{}", 100 * whole.input_wait_share,
                                       named ? ", limited by " + whole.limiting_stage : std::string()));
  row("peak RSS", fmt::format("{:.0f} MB", peak_rss_mb()));
  row("model", options_.out + "/model");
  for (const BestModel& best : summary.best_models) {
    row("best model", fmt::format("{}  evaluation loss {:.4f}", best.path, best.value));
  }
  if (skips) std::cout << skipped.to_string();
}

}  // namespace millrace
