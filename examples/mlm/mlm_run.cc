#include "examples/mlm/mlm_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "examples/mlm/model_folder.h"
#include "formats/error.h"
#include "tokenizer/tokenizer.h"
#include "trainer/pipeline_source.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// What a run leaves in OUT that is worth keeping; its log goes with it.
constexpr std::array kResults = {"checkpoints", "model"};
constexpr const char* kLog = "log.jsonl";

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

int32_t special_token(const Tokenizer& tokenizer, std::string_view token, const std::string& path) {
  const auto id = tokenizer.id_of(token);
  if (!id) refuse(fmt::format("the tokenizer has no token {} ({})", token, path));
  return *id;
}

double peak_rss_mb() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

void check_output_folder(const TrainMlmOptions& options) {
  if (!options.resume.empty() || options.overwrite) return;
  for (const char* name : kResults) {
    if (!fs::exists(fs::path(options.out) / name)) continue;
    refuse(fmt::format("{} holds {} of an earlier run; give --overwrite, --resume CHECKPOINT, or another --out",
                       options.out, name));
  }
}

MlmRun::MlmRun(TrainMlmOptions options) : options_(std::move(options)), shards_(MlmShards::find(options_.shards)) {
  check_output_folder(options_);
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
           .seed = options_.seed};
  const uint64_t rows = shards_.train.num_records().value();
  if (rows < static_cast<uint64_t>(options_.global_batch)) {
    refuse(
        fmt::format("the training shards have {} rows, less than one global batch of {}", rows, options_.global_batch));
  }
  if (!shards_.validation) std::cerr << "train_mlm: no validation shards, so there is no evaluation\n";
  start_folder();
}

void MlmRun::start_folder() const {
  const fs::path out = options_.out;
  std::error_code code;
  fs::create_directories(out, code);
  if (code) {
    throw ErrorException({.code = ErrorCode::kIo,
                          .message = fmt::format("cannot make the folder: {}", code.message()),
                          .shard = options_.out});
  }
  if (!options_.resume.empty()) return;
  const auto remove = [&](const char* name) {
    fs::remove_all(out / name, code);
    if (!code) return;
    throw ErrorException({.code = ErrorCode::kIo,
                          .message = fmt::format("cannot remove it: {}", code.message()),
                          .shard = (out / name).string()});
  };
  remove(kLog);
  std::ranges::for_each(kResults, remove);
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
  TrainerOptions options{.step = {.replicas = options_.replicas, .threads = options_.threads, .seed = options_.seed},
                         .total_steps = options_.steps,
                         .report_every = options_.report_every,
                         .token_feature = "input_ids",
                         .checkpoint_folder = options_.out + "/checkpoints",
                         .checkpoints = {.keep_last = options_.keep_checkpoints,
                                         .more_files =
                                             [&model, tokenizer = options_.tokenizer](const std::string& directory) {
                                               save_model_description(directory, model, tokenizer);
                                             }},
                         .checkpoint_every = options_.checkpoint_every};
  if (shards_.validation) {
    options.evaluation = [batches = mlm_evaluation_batches(shards_, data_), threads = options_.threads] {
      return std::make_unique<PipelineSource>(batches.start({.threads = threads}));
    };
    options.evaluate_every = options_.evaluate_every;
  }
  return options;
}

void MlmRun::save_model(const RobertaForMaskedLm& model, std::span<const float> weights) const {
  save_model_folder(options_.out + "/model", model, weights, options_.tokenizer);
}

void MlmRun::print_summary(const TrainingSummary& summary) const {
  const double uniform_loss = std::log(static_cast<double>(options_.vocab_size));
  const TrainingReport& whole = summary.whole;
  if (options_.json) {
    nlohmann::ordered_json json = {{"steps", summary.step},
                                   {"first_loss", summary.first_loss},
                                   {"ln_vocab_size", uniform_loss},
                                   {"evaluation_loss", nullptr},
                                   {"evaluation_rows", nullptr},
                                   {"unigram_entropy", nullptr},
                                   {"seconds", whole.seconds},
                                   {"tokens_per_s", whole.tokens_per_s},
                                   {"input_wait_share", whole.input_wait_share},
                                   {"limiting_stage", whole.limiting_stage},
                                   {"skipped_updates", whole.skipped_updates},
                                   {"threads", summary.threads},
                                   {"peak_rss_mb", peak_rss_mb()},
                                   {"model", options_.out + "/model"}};
    if (summary.last_evaluation) {
      json["evaluation_loss"] = summary.last_evaluation->loss;
      json["evaluation_rows"] = summary.last_evaluation->rows;
    }
    if (shards_.unigram_entropy) json["unigram_entropy"] = *shards_.unigram_entropy;
    std::cout << json.dump() << "\n";
    return;
  }
  const auto row = [](std::string_view name, const std::string& value) {
    std::cout << fmt::format("{:<22}{}\n", name, value);
  };
  row("steps", fmt::format("{}", summary.step));
  row("first loss", fmt::format("{:.4f}  (ln of the vocabulary: {:.4f})", summary.first_loss, uniform_loss));
  if (summary.last_evaluation) {
    row("evaluation loss",
        fmt::format("{:.4f}  over {} rows", summary.last_evaluation->loss, summary.last_evaluation->rows));
  }
  if (shards_.unigram_entropy) row("unigram entropy", fmt::format("{:.4f}", *shards_.unigram_entropy));
  row("time in steps",
      fmt::format("{:.1f} s, {:.0f} tokens/s, {} threads", whole.seconds, whole.tokens_per_s, summary.threads));
  row("waiting for input", fmt::format("{:.2f}%, limited by {}", 100 * whole.input_wait_share, whole.limiting_stage));
  row("peak RSS", fmt::format("{:.0f} MB", peak_rss_mb()));
  row("model", options_.out + "/model");
}

}  // namespace millrace
