// Trains a masked language model on TFRecord shards; see train_mlm --help and docs/training.md.
#include <cmath>

#include <fmt/format.h>

#include "examples/mlm/mlm_input.h"
#include "examples/mlm/train_mlm_options.h"
#include "millrace/command_line/command_line.h"
#include "millrace/trainer/models/roberta.h"
#include "millrace/trainer/models/roberta_pretrained.h"
#include "millrace/trainer/optimizers/adam.h"
#include "millrace/trainer/run/tokenizer_files.h"
#include "millrace/trainer/run/training_run.h"

namespace {

using namespace millrace;

RobertaConfig config_of(const TrainMlmOptions& options, const MlmInput& input) {
  return {.vocab_size = input.vocab_size(),
          .hidden_size = options.hidden,
          .num_hidden_layers = options.layers,
          .num_attention_heads = options.heads,
          .intermediate_size = 4 * options.hidden,
          .max_position_embeddings = options.max_length + input.pad_token() + 1,
          .pad_token_id = input.pad_token(),
          .bos_token_id = input.cls_token(),
          .eos_token_id = input.sep_token(),
          .hidden_dropout_prob = options.dropout,
          .attention_probs_dropout_prob = options.dropout,
          .initializer_range = options.initializer_range > 0 ? options.initializer_range
                                                             : 1 / std::sqrt(static_cast<double>(options.hidden))};
}

// What a model that knows nothing and one that knows how often each token occurs would have for a loss.
std::vector<SummaryLine> losses_of_ignorance(const MlmInput& input) {
  const double uniform = std::log(static_cast<double>(input.vocab_size()));
  const auto entropy = input.unigram_entropy();
  return {{"ln of the vocabulary", fmt::format("{:.4f}", uniform), "ln_vocab_size", uniform},
          {"unigram entropy", entropy ? fmt::format("{:.4f}", *entropy) : "", "unigram_entropy", entropy}};
}

// As AutoModelForMaskedLM and PreTrainedTokenizerFast load it.
RunModel written_as_hugging_face(const RobertaForMaskedLm& model, const TrainMlmOptions& options) {
  return {.model = model,
          .optimizer = std::make_unique<Adam>(model.layout(), adam_weight_decay(options.run.weight_decay)),
          .save_description =
              [&](const std::string& directory) {
                save_roberta_config(directory, model.config());
                save_tokenizer_files(directory, options.tokenizer, options.max_length);
              },
          .save_weights = [&](const std::string& directory,
                              std::span<const float> weights) { save_roberta_weights(directory, model, weights); }};
}

int run(int argc, char** argv) {
  const auto options = parse_train_mlm_options(argc, argv);
  if (!options) return 0;
  if (options->run.check) return check_output_folder(options->run), 0;
  const MlmInput input(*options);
  TrainingRun training("train_mlm", options->run);
  const RobertaForMaskedLm model(config_of(*options, input));
  return training.train(written_as_hugging_face(model, *options), input.data(),
                        [&](const TrainingSummary&) { return losses_of_ignorance(input); });
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("train_mlm", [&] { return run(argc, argv); });
}
