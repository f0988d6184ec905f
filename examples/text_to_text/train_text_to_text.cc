// Trains a T5 that says a word for the class of a text; see train_text_to_text --help and docs/text_to_text.md.
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "examples/text_to_text/prepared_rows.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"
#include "millrace/trainer/metrics/accuracy.h"
#include "millrace/trainer/models/config_limits.h"
#include "millrace/trainer/models/t5_classifier.h"
#include "millrace/trainer/models/t5_pretrained.h"
#include "millrace/trainer/run/run_spec.h"
#include "millrace/trainer/run/tokenizer_files.h"
#include "millrace/trainer/run/training_run.h"

namespace {

using namespace millrace;

namespace po = boost::program_options;

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

// The command line.
struct Options {
  RunOptions run = {.out = "text_to_text",
                    .global_batch = 32,
                    .phase = {.weight_decay = 0.01},
                    .clip_norm = 1,
                    .keep_best_by = "accuracy"};
  std::string rows = {};   // folder; empty: OUT/rows
  std::string model = {};  // folder of a T5 in Hugging Face's layout; empty: from scratch
  std::vector<std::string> ignored_config_fields = {};
  // Sizes of a T5 from scratch; the vocabulary is the tokenizer's.
  T5Config sizes = {.d_model = 128, .d_kv = 32, .d_ff = 512, .num_layers = 2, .num_heads = 4};
  std::optional<double> dropout = {};  // none: 0.1, or the T5's own
  int64_t shuffle = 1024;
};

std::optional<Options> parse_options(int argc, const char* const* argv) {
  Options options;
  T5Config& sizes = options.sizes;
  double dropout = sizes.dropout_rate;
  po::options_description files("files");
  po::options_description model("model");
  po::options_description training("training");
  po::options_description reports("reports");
  add_run_options(options.run, "of start weights, order and dropout", files, training, reports);
  // clang-format off
  files.add_options()
      ("rows", po::value(&options.rows), "folder that prepare_text_to_text wrote (default: OUT/rows)");
  model.add_options()
      ("model", po::value(&options.model),
       "folder of a T5 in Hugging Face's layout that the training starts from, of the tokenizer that the rows were written "
       "with; not given, a T5 from scratch of these sizes:")
      ("ignore-config", po::value(&options.ignored_config_fields)->composing(),
       "pass over this field of the model's config.json, which is not known; may be repeated")
      ("layers", whole_number(sizes.num_layers, {1, kMostLayers}), "of the encoder, and of the decoder")
      ("d-model", whole_number(sizes.d_model, {1, kMostSize}), "width of the hidden states")
      ("d-ff", whole_number(sizes.d_ff, {1, kMostSize}), "inner width of the feed-forward blocks")
      ("heads", whole_number(sizes.num_heads, {1, kMostSize}), "attention heads")
      ("d-kv", whole_number(sizes.d_kv, {1, kMostSize}), "width of a head")
      ("initializer-factor", real_number(sizes.initializer_factor, {1e-6, 1e6}), "of the start weights")
      ("dropout", real_number(dropout, {0, 0.99}), "not given with --model, the model's own");
  training.add_options()
      ("shuffle", whole_number(options.shuffle, {1, limits::kRows}), "rows in the shuffle buffer");
  // clang-format on
  po::options_description all;
  all.add(files).add(model).add(training).add(reports);
  const auto given = parse_command_line(
      argc, argv,
      {.name = "train_text_to_text",
       .about = "Trains a T5 that says a word for the class of a text, and saves it in Hugging Face's layout.\n"
                "Ctrl-C finishes the step, leaves a checkpoint and exits with 130; a second one stops at once.",
       .usage = "[options]"},
      all);
  if (!given) return std::nullopt;
  take_run_options(options.run, *given);
  if (options.rows.empty()) options.rows = options.run.out + "/rows";
  if (!(*given)["dropout"].defaulted() || options.model.empty()) options.dropout = dropout;
  for (const char* name : {"layers", "d-model", "d-ff", "heads", "d-kv", "initializer-factor"}) {
    if (options.model.empty() || (*given)[name].defaulted()) continue;
    refuse(fmt::format("--{} is of a T5 from scratch, and --model gives one", name));
  }
  sizes.num_decoder_layers = sizes.num_layers;
  return options;
}

T5Config config_of(const Options& options, const PreparedRows& rows) {
  T5Config config = options.sizes;
  if (options.model.empty()) {
    config.vocab_size = rows.vocab_size();
    config.pad_token_id = config.decoder_start_token_id = rows.encoder().pad_token();
    config.eos_token_id = rows.encoder().end_token();
  } else {
    config = load_t5_config(options.model, {.ignored_config_fields = options.ignored_config_fields});
    check_tokenizer_of(options.model, config.vocab_size, rows.tokenizer_file());
    if (config.pad_token_id != rows.encoder().pad_token() || config.eos_token_id != rows.encoder().end_token()) {
      refuse(fmt::format("the model in {} has other ids of padding and end than the tokenizer of the rows",
                         options.model));
    }
  }
  if (options.dropout) config.dropout_rate = *options.dropout;
  return config;
}

RunData data_of(const Options& options, const PreparedRows& rows) {
  const RunOptions& run = options.run;
  RunData data{
      .training = rows.training_batches(run.global_batch, options.shuffle, static_cast<uint64_t>(run.seed), run.damage),
      .description =
          fmt::format("{} rows of {} tokens, global batch {}, shuffle {}, vocabulary {}", rows.num_rows(0),
                      rows.encoder().task().max_length, run.global_batch, options.shuffle, rows.vocab_size()),
      .token_feature = "input_ids",
      .batches_per_epoch = (rows.num_rows(0) + run.global_batch - 1) / run.global_batch,
      .rows_per_epoch = rows.num_rows(0),
      .masks = {"attention_mask"},
      .look = [&rows](const BatchView& row) -> std::vector<std::string> {
        return {"text: " + rows.encoder().text_of(row.feature("input_ids").values<int32_t>()),
                "answer: " + rows.encoder().text_of(row.feature("labels").values<int32_t>())};
      }};
  if (rows.num_rows(1) == 0) return data;
  data.evaluation = rows.rows(1, /*labels=*/true, run.damage).batch(run.global_batch).prefetch(2);
  data.metrics = [] { return metrics_of(Accuracy({.predictions = "class", .labels = "class"})); };
  data.higher_is_better = {"accuracy"};
  return data;
}

// What is trained, and on what.
struct Training {
  const Options& options;
  const PreparedRows rows = PreparedRows(options.rows);
  const T5Classifier model = T5Classifier(config_of(options, rows), rows.encoder().class_tokens(), options.model);

  // Written as transformers loads it, with what predict_text_to_text asks beside. It must not outlive this.
  RunParts parts() const {
    return {.trained = {.model = model,
                        .save_description =
                            [this](const std::string& directory) {
                              save_t5_config(directory, model.t5().config());
                              save_tokenizer_files(directory, rows.tokenizer_file(), rows.encoder().task().max_length);
                              save_text_task(directory, rows.encoder().task());
                            },
                        .save_weights =
                            [this](const std::string& directory, std::span<const float> weights) {
                              save_t5_weights(directory, model.t5(), weights);
                            }},
            .data = data_of(options, rows)};
  }
};

int run(int argc, char** argv) {
  const auto options = parse_options(argc, argv);
  if (!options) return 0;
  std::unique_ptr<Training> made;
  const auto make = [&] { return (made = std::unique_ptr<Training>(new Training{.options = *options}))->parts(); };
  if (options->run.check) return check_run(options->run, make);
  const RunParts parts = make();
  check_evaluation(options->run, parts.data);
  TrainingRun training("train_text_to_text", options->run);
  return training.train(parts.trained, parts.data, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("train_text_to_text", [&] { return run(argc, argv); });
}
