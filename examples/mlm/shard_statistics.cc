#include "examples/mlm/shard_statistics.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/json/read_json.h"
#include "millrace/formats/storage/remote/routed_storage.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const SplitStatistics& split) {
  return {{"rows", split.rows},
          {"shards", split.shards},
          {"records", split.records},
          {"tokens", split.tokens},
          {"ordinary_tokens", split.ordinary_tokens},
          {"dropped_tokens", split.dropped_tokens}};
}

}  // namespace

static void from_json(const nlohmann::json& json, SplitStatistics& split) {
  json.at("rows").get_to(split.rows);
  json.at("shards").get_to(split.shards);
  json.at("records").get_to(split.records);
  json.at("tokens").get_to(split.tokens);
  json.at("ordinary_tokens").get_to(split.ordinary_tokens);
  json.at("dropped_tokens").get_to(split.dropped_tokens);
}

static void from_json(const nlohmann::json& json, ShardStatistics& statistics) {
  json.at("vocabulary_size").get_to(statistics.vocabulary_size);
  statistics.tokenizer_digest = json.value("tokenizer_digest", "");
  json.at("max_length").get_to(statistics.max_length);
  for (const Split split : kTrainAndValidation) json.at(std::string(to_string(split))).get_to(statistics.of(split));
  if (!json.at("unigram_entropy").is_null()) statistics.unigram_entropy = json.at("unigram_entropy").get<double>();
  json.at("unseen_tokens").get_to(statistics.unseen_tokens);
}

std::optional<double> unigram_cross_entropy(std::span<const int64_t> train_counts,
                                            std::span<const int64_t> validation_counts) {
  int64_t total = 0;
  for (const int64_t count : train_counts) total += std::max<int64_t>(count, 1);
  int64_t num_tokens = 0;
  double nats = 0;
  for (size_t token = 0; token < validation_counts.size(); ++token) {
    if (validation_counts[token] == 0) continue;
    num_tokens += validation_counts[token];
    const auto seen = static_cast<double>(std::max<int64_t>(train_counts[token], 1));
    nats += static_cast<double>(validation_counts[token]) * std::log(static_cast<double>(total) / seen);
  }
  if (num_tokens == 0) return std::nullopt;
  return nats / static_cast<double>(num_tokens);
}

std::string to_json(const ShardStatistics& statistics) {
  Json json;
  json["vocabulary_size"] = statistics.vocabulary_size;
  json["tokenizer_digest"] = statistics.tokenizer_digest;
  json["max_length"] = statistics.max_length;
  for (const Split split : kTrainAndValidation) json[std::string(to_string(split))] = json_of(statistics.of(split));
  json["unigram_entropy"] = statistics.unigram_entropy ? Json(*statistics.unigram_entropy) : Json();
  json["unseen_tokens"] = statistics.unseen_tokens;
  return json.dump(2) + "\n";
}

std::optional<ShardStatistics> find_shard_statistics(const std::string& folder) {
  const std::string path = path_in(folder, "statistics.json");
  const std::optional<std::string> text = find_whole_anywhere(path, "statistics of a set of shards");
  if (!text) return std::nullopt;
  return json_as<ShardStatistics>(*text, path);
}

}  // namespace millrace
