// Trains a masked language model on TFRecord shards; see train_mlm --help and docs/training.md.
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "examples/mlm/mlm_input.h"
#include "examples/mlm/train_mlm_options.h"
#include "millrace/command_line/command_line.h"
#include "millrace/trainer/models/roberta.h"
#include "millrace/trainer/models/roberta_pretrained.h"
#include "millrace/trainer/run/roberta_options.h"
#include "millrace/trainer/run/run_spec.h"
#include "millrace/trainer/run/tokenizer_files.h"
#include "millrace/trainer/run/training_run.h"

namespace {

using namespace millrace;

RobertaConfig config_of(const TrainMlmOptions& options, const MlmInput& input) {
  return roberta_config({.layers = options.layers,
                         .hidden = options.hidden,
                         .heads = options.heads,
                         .dropout = options.dropout,
                         .initializer_range = options.initializer_range},
                        {.vocabulary_size = input.vocab_size(),
                         .cls = input.cls_token(),
                         .sep = input.sep_token(),
                         .pad = input.pad_token()},
                        options.max_length);
}

// What a model that knows nothing and one that knows how often each token occurs would have for a loss.
std::vector<SummaryLine> losses_of_ignorance(const MlmInput& input) {
  const double uniform = std::log(static_cast<double>(input.vocab_size()));
  const auto entropy = input.unigram_entropy();
  return {{"ln of the vocabulary", fmt::format("{:.4f}", uniform), "ln_vocab_size", uniform},
          {"unigram entropy", entropy ? fmt::format("{:.4f}", *entropy) : "", "unigram_entropy", entropy}};
}

// What is trained, and on what.
class MlmTraining {
 public:
  explicit MlmTraining(const TrainMlmOptions& options)
      : options_(options), input_(options), model_(config_of(options, input_)) {}

  const MlmInput& input() const { return input_; }
  // It must not outlive this. Written as AutoModelForMaskedLM and PreTrainedTokenizerFast load it.
  RunParts parts() const {
    return {.trained = {.model = model_,
                        .save_description =
                            [this](const std::string& directory) {
                              save_roberta_config(directory, model_.config());
                              save_tokenizer_files(directory, options_.tokenizer, options_.max_length);
                            },
                        .save_weights =
                            [this](const std::string& directory, std::span<const float> weights) {
                              save_roberta_weights(directory, model_, weights);
                            }},
            .data = input_.data()};
  }

 private:
  const TrainMlmOptions& options_;
  const MlmInput input_;
  const RobertaForMaskedLm model_;
};

int run(int argc, char** argv) {
  const auto options = parse_train_mlm_options(argc, argv);
  if (!options) return 0;
  std::optional<MlmTraining> mlm;
  const auto make = [&] { return mlm.emplace(*options).parts(); };
  if (options->run.check) return check_run(options->run, make);
  const RunParts parts = make();
  TrainingRun training("train_mlm", options->run);
  return training.train(parts.trained, parts.data,
                        [&](const TrainingSummary&) { return losses_of_ignorance(mlm->input()); });
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("train_mlm", [&] { return run(argc, argv); });
}
