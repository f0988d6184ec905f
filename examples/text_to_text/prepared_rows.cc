#include "examples/text_to_text/prepared_rows.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "examples/text_to_text/preparation.h"
#include "millrace/formats/error.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/trainer/run/missing_data.h"

namespace millrace {
PreparedRows::PreparedRows(const std::string& folder) : folder_(folder) {
  const std::string path = path_in(folder, "statistics.json");
  const std::optional<std::string> statistics = find_whole_anywhere(path, "statistics of prepared rows");
  if (!statistics) {
    throw MissingData(fmt::format("no rows in {}; prepare_text_to_text writes them", folder));
  }
  const auto json = parse_json(*statistics, path);
  TextTask task;
  try {
    json.at("task").get_to(task);
    json.at("vocabulary_size").get_to(vocab_size_);
    for (size_t i = 0; i < kSplitNames.size(); ++i) json.at(kSplitNames[i]).at("rows").get_to(num_rows_[i]);
  } catch (const nlohmann::json::exception& e) {
    throw ErrorException({.code = ErrorCode::kParse, .message = e.what(), .shard = path});
  }
  const Tokenizer tokenizer = Tokenizer::load(tokenizer_file());
  if (tokenizer.size() != vocab_size()) {
    refuse(fmt::format("the rows in {} were written with a tokenizer of {} tokens, {} has {}", folder, vocab_size(),
                       tokenizer_file(), tokenizer.size()));
  }
  encoder_.emplace(std::move(task), tokenizer, tokenizer_file());
  for (size_t i = 0; i < kSplitNames.size(); ++i) {
    if (exists_anywhere(path_in(folder, split_file(i, num_rows(i))))) continue;
    refuse(fmt::format("rows are missing: {} says that there is {}", path, split_file(i, num_rows(i))));
  }
}

Dataset PreparedRows::rows(size_t split, bool labels, const DamagePolicy& damage) const {
  const std::string file = split_file(split, num_rows(split));
  const Shards shards =
      Shards::files(located({path_in(folder_, file)})).with_counts({static_cast<uint64_t>(num_rows(split))});
  const int64_t length = encoder_->task().max_length;
  std::vector<FeatureDescription> features = {fixed_len("input_ids", {length}, DType::kInt64).as(DType::kInt32),
                                              fixed_len("attention_mask", {length}, DType::kInt64),
                                              fixed_len("class", {1}, DType::kInt64)};
  if (labels) {
    features.push_back(fixed_len("labels", {2}, DType::kInt64).as(DType::kInt32));
    features.push_back(fixed_len("decoder_attention_mask", {2}, DType::kInt64));
  }
  return Dataset::tfrecord(shards, {.cycle_length = 1, .damage = damage}).parse_example(std::move(features));
}

Dataset PreparedRows::training_batches(int64_t batch, int64_t shuffle, uint64_t seed,
                                       const DamagePolicy& damage) const {
  return rows(0, true, damage).cache().shuffle(shuffle, {.seed = seed}).batch(batch).prefetch(2).repeat();
}

}  // namespace millrace
