#include "examples/mlm/mlm_input.h"

#include <algorithm>
#include <iostream>
#include <limits>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/tokenizer/special_tokens.h"
#include "millrace/trainer/metrics/accuracy.h"
#include "millrace/trainer/run/missing_data.h"
#include "millrace/trainer/run/tokenizer_files.h"

namespace millrace {
namespace {

// Of a vocabulary that no tokenizer gives, of which the first ones are special.
constexpr int64_t kSyntheticVocabulary = 10048;
constexpr uint32_t kSyntheticSpecialTokens = 5;

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

}  // namespace

MlmInput::MlmInput(const TrainMlmOptions& options)
    : options_(options), vocab_size_(options.vocab_size > 0 ? options.vocab_size : kSyntheticVocabulary) {
  if (options_.synthetic) return;
  shards_ = MlmShards::find(options_.shards);
  if (!exists_anywhere(options_.tokenizer)) {
    throw MissingData(fmt::format("there is no tokenizer {}; train_unigram writes it", options_.tokenizer));
  }
  tokenizer_ = Tokenizer::load(options_.tokenizer);
  find_tokens();
  check_rows();
  check_statistics();
  if (!shards_->validation) std::cerr << "train_mlm: no validation shards, so there is no evaluation\n";
}

void MlmInput::find_tokens() {
  const Tokenizer& tokenizer = *tokenizer_;
  if (options_.vocab_size == 0) vocab_size_ = tokenizer.size();
  if (vocab_size_ < tokenizer.size()) {
    refuse(fmt::format("--vocab-size is {}, but the tokenizer has {} tokens", vocab_size_, tokenizer.size()));
  }
  const SpecialTokens special = SpecialTokens::find(tokenizer, options_.tokenizer);
  pad_token_ = special.id_of(tokenizer, "pad_token");
  cls_token_ = special.id_of(tokenizer, "cls_token");
  sep_token_ = special.id_of(tokenizer, "sep_token");
  mask_token_ = special.id_of(tokenizer, "mask_token");
}

void MlmInput::check_rows() const {
  const uint64_t rows = shards_->train.num_records().value();
  if (rows >= static_cast<uint64_t>(options_.run.global_batch)) return;
  refuse(fmt::format("the training shards have {} rows, less than one global batch of {}", rows,
                     options_.run.global_batch));
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
  if (!statistics.tokenizer_digest.empty() && statistics.tokenizer_digest != tokenizer_digest(options_.tokenizer)) {
    refuse(fmt::format("the shards in {} were written with another tokenizer than {}", options_.shards,
                       options_.tokenizer));
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
                     options_.run.global_batch, options_.shuffle, vocab_size_, options_.dropout);
}

std::optional<double> MlmInput::unigram_entropy() const {
  if (!shards_ || !shards_->statistics) return std::nullopt;
  return shards_->statistics->unigram_entropy;
}

Dataset MlmInput::rows_of(const Shards& shards, TfrecordOptions reading) const {
  reading.damage = options_.run.damage;
  return Dataset::tfrecord(shards, reading)
      .parse_example({fixed_len("input_ids", {options_.max_length}, DType::kInt64).as(DType::kInt32),
                      fixed_len("attention_mask", {options_.max_length}, DType::kInt64)});
}

Dataset MlmInput::synthetic_rows() const {
  const auto draw = [length = options_.max_length,
                     num_ordinary = static_cast<uint32_t>(vocab_size_) - kSyntheticSpecialTokens,
                     rng = CounterRng(static_cast<uint64_t>(options_.run.seed), operator_id("synthetic_tokens"))](
                        const RowView& row, RowWriter& out) {
    const auto number = static_cast<uint64_t>(row.value<int64_t>("row"));
    const auto ids = out.make<int32_t>("input_ids", {{length}});
    for (int64_t i = 0; i < length; ++i) {
      const uint32_t random = rng.words(number, static_cast<uint64_t>(i))[0];
      ids[static_cast<size_t>(i)] = static_cast<int32_t>(kSyntheticSpecialTokens + uniform_below(random, num_ordinary));
    }
    std::ranges::fill(out.make<int64_t>("attention_mask", {{length}}), 1);
  };
  return Dataset::range(0, std::numeric_limits<int64_t>::max(), 1, "row")
      .map({.name = "synthetic_tokens",
            .writes = {{.name = "input_ids", .dtype = DType::kInt32, .shape = {options_.max_length}},
                       {.name = "attention_mask", .dtype = DType::kInt64, .shape = {options_.max_length}}},
            .function = draw,
            .keep_others = false});
}

Dataset MlmInput::masked(const Dataset& batches) const {
  return batches
      .mask_tokens({.vocab_size = vocab_size_,
                    .mask_token = mask_token_,
                    .special_tokens = {cls_token_, sep_token_},
                    .probability = options_.mask_probability,
                    .seed = static_cast<uint64_t>(options_.run.seed)})
      .prefetch(2);
}

Dataset MlmInput::training_batches() const {
  const BatchOptions whole = {.drop_remainder = true};
  if (!shards_) return masked(synthetic_rows().batch(options_.run.global_batch, whole));
  const auto seed = static_cast<uint64_t>(options_.run.seed);
  const Dataset rows =
      rows_of(shards_->train, {.shuffle_shards = true, .seed = seed}).shuffle(options_.shuffle, {.seed = seed});
  return masked(rows.batch(options_.run.global_batch, whole)).repeat();
}

RunData MlmInput::data() const {
  RunData data{.training = training_batches(),
               .description = describe(),
               .token_features = {"input_ids"},
               .masks = {"attention_mask"}};
  if (!shards_) return data;
  data.rows_per_epoch = static_cast<int64_t>(shards_->train.num_records().value());
  data.batches_per_epoch = data.rows_per_epoch / options_.run.global_batch;
  data.look = [this](const BatchView& row) -> std::vector<std::string> {
    const auto ids = row.feature("input_ids").values<int32_t>();
    return {"text: " + tokenizer_->decode(ids, /*skip_special_tokens=*/false)};
  };
  if (!shards_->validation) return data;
  data.evaluation = masked(rows_of(*shards_->validation, {.cycle_length = 1}).batch(options_.run.global_batch));
  data.metrics = [] { return metrics_of(Accuracy()); };
  data.higher_is_better = {"accuracy"};
  return data;
}

}  // namespace millrace
