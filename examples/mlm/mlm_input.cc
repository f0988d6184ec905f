#include "examples/mlm/mlm_input.h"

#include <iostream>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/tokenizer/special_tokens.h"
#include "millrace/trainer/metrics/accuracy.h"

namespace millrace {
namespace {

// Of a vocabulary that no tokenizer gives.
constexpr int64_t kSyntheticVocabulary = 10048;

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

}  // namespace

MlmInput::MlmInput(const TrainMlmOptions& options)
    : options_(options),
      data_{.max_length = options.max_length,
            .global_batch = options.run.global_batch,
            .shuffle = options.shuffle,
            .vocab_size = options.vocab_size > 0 ? options.vocab_size : kSyntheticVocabulary,
            .mask_probability = options.mask_probability,
            .seed = static_cast<uint64_t>(options.run.seed),
            .damage = options.run.damage} {
  if (!options.synthetic) read_files();
}

void MlmInput::read_files() {
  shards_ = MlmShards::find(options_.shards);
  const Tokenizer& tokenizer = tokenizer_.emplace(Tokenizer::load(options_.tokenizer));
  data_.vocab_size = options_.vocab_size == 0 ? tokenizer.size() : options_.vocab_size;
  if (data_.vocab_size < tokenizer.size()) {
    refuse(fmt::format("--vocab-size is {}, but the tokenizer has {} tokens", data_.vocab_size, tokenizer.size()));
  }
  const SpecialTokens special = SpecialTokens::find(tokenizer, options_.tokenizer);
  pad_token_ = special.id_of(tokenizer, "pad_token");
  cls_token_ = special.id_of(tokenizer, "cls_token");
  sep_token_ = special.id_of(tokenizer, "sep_token");
  data_.mask_token = special.id_of(tokenizer, "mask_token");
  data_.special_tokens = {cls_token_, sep_token_};
  const uint64_t rows = shards_->train.num_records().value();
  if (rows < static_cast<uint64_t>(options_.run.global_batch)) {
    refuse(fmt::format("the training shards have {} rows, less than one global batch of {}", rows,
                       options_.run.global_batch));
  }
  check_statistics();
  if (shards_->validation) return;
  for (const auto& [option, given] :
       {std::pair{"keep-best", options_.run.keep_best > 0}, std::pair{"patience", options_.run.patience >= 0},
        std::pair{"evaluate-every", to_string(options_.run.evaluate_every) != "0"}}) {
    if (given) refuse(fmt::format("--{} needs validation shards, and {} has none", option, options_.shards));
  }
  std::cerr << "train_mlm: no validation shards, so there is no evaluation\n";
}

// The set is the one that prepare_tfrecord_shards wrote, for this tokenizer and length, and all of it is there.
void MlmInput::check_statistics() const {
  if (!shards_->statistics) {
    std::cerr << "train_mlm: no statistics.json in " << options_.shards << ": whether the set is whole is not known\n";
    return;
  }
  const ShardStatistics& statistics = *shards_->statistics;
  if (statistics.max_length != options_.max_length) {
    refuse(fmt::format("--max-length is {}, but the records of {} have {} tokens", options_.max_length, options_.shards,
                       statistics.max_length));
  }
  if (statistics.vocabulary_size != tokenizer_->size()) {
    refuse(fmt::format("the shards in {} were written with a tokenizer of {} tokens, {} has {}", options_.shards,
                       statistics.vocabulary_size, options_.tokenizer, tokenizer_->size()));
  }
  const auto check_split = [&](Split split, const std::optional<Shards>& there) {
    const SplitStatistics& expected = statistics.of(split);
    const auto files = there ? static_cast<int64_t>(there->size()) : 0;
    const auto records = there ? static_cast<int64_t>(there->num_records().value()) : 0;
    if (files == expected.shards && records == expected.records) return;
    refuse(fmt::format("shards are missing: {}/{} has {} files with {} records, statistics.json says {} with {}",
                       options_.shards, to_string(split), files, records, expected.shards, expected.records));
  };
  check_split(Split::kTrain, shards_->train);
  check_split(Split::kValidation, shards_->validation);
}

std::string MlmInput::describe() const {
  if (!shards_) return "synthetic";
  return fmt::format("{} rows of {} tokens in {} shards, global batch {}, shuffle {}, vocabulary {}, dropout {}",
                     shards_->train.num_records().value(), options_.max_length, shards_->train.size(),
                     options_.run.global_batch, options_.shuffle, data_.vocab_size, options_.dropout);
}

std::optional<double> MlmInput::unigram_entropy() const {
  if (!shards_ || !shards_->statistics) return std::nullopt;
  return shards_->statistics->unigram_entropy;
}

RunData MlmInput::data() const {
  RunData data{.training = shards_ ? mlm_training_batches(*shards_, data_) : mlm_synthetic_batches(data_),
               .description = describe(),
               .token_feature = "input_ids",
               .masks = {"attention_mask"}};
  if (!shards_) return data;
  data.rows_per_epoch = static_cast<int64_t>(shards_->train.num_records().value());
  data.batches_per_epoch = data.rows_per_epoch / options_.run.global_batch;
  data.look = [this](const BatchView& row) -> std::vector<std::string> {
    return {"text: " + tokenizer_->decode(row.feature("input_ids").values<int32_t>(), /*skip_special_tokens=*/false)};
  };
  if (!shards_->validation) return data;
  data.evaluation = mlm_evaluation_batches(*shards_, data_);
  data.metrics = [] { return metrics_of(Accuracy()); };
  data.higher_is_better = {"accuracy"};
  return data;
}

}  // namespace millrace
