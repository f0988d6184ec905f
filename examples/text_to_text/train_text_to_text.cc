// Trains a T5 that says a word for the class of a text; see train_text_to_text --help and docs/text_to_text.md.
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "examples/text_to_text/prepared_rows.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/number_options.h"
#include "millrace/trainer/metrics/accuracy.h"
#include "millrace/trainer/models/t5_classifier.h"
#include "millrace/trainer/models/t5_pretrained.h"
#include "millrace/trainer/run/run_spec.h"
#include "millrace/trainer/run/t5_options.h"
#include "millrace/trainer/run/tokenizer_files.h"
#include "millrace/trainer/run/training_run.h"

namespace {

using namespace millrace;

namespace po = boost::program_options;

// The command line.
struct Options {
  RunOptions run = {.out = "text_to_text",
                    .global_batch = 32,
                    .phase = {.weight_decay = 0.01},
                    .clip_norm = 1,
                    .keep_best = 1,
                    .keep_best_by = "accuracy"};
  std::string rows = {};  // folder; empty: OUT/rows
  T5Options t5 = {};
  int64_t shuffle = 1024;
};

std::optional<Options> parse_options(int argc, const char* const* argv) {
  Options options;
  po::options_description files("files");
  po::options_description model("model");
  po::options_description training("training");
  po::options_description reports("reports");
  add_run_options(options.run, "of start weights, order and dropout", files, training, reports);
  add_t5_options(options.t5, model);
  // clang-format off
  files.add_options()
      ("rows", po::value(&options.rows), "folder that prepare_text_to_text wrote, or its URL (default: OUT/rows)");
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
  take_t5_options(options.t5, *given);
  return options;
}

T5Config config_of(const Options& options, const PreparedRows& rows) {
  return t5_config(options.t5, {.file = rows.tokenizer_file(),
                                .vocabulary_size = rows.vocab_size(),
                                .pad = rows.encoder().pad_token(),
                                .end = rows.encoder().end_token()});
}

RunData data_of(const Options& options, const PreparedRows& rows) {
  const RunOptions& run = options.run;
  RunData data{
      .training = rows.training_batches(run.global_batch, options.shuffle, static_cast<uint64_t>(run.seed), run.damage),
      .description =
          fmt::format("{} rows of {} tokens, global batch {}, shuffle {}, vocabulary {}", rows.num_rows(0),
                      rows.encoder().task().max_length, run.global_batch, options.shuffle, rows.vocab_size()),
      .token_features = {"input_ids"},
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
  const T5Classifier model = T5Classifier(config_of(options, rows), rows.encoder().class_tokens(), options.t5.model);

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
