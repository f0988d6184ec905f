#include "examples/mlm/mlm_data.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/formats/storage/local.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

std::optional<Shards> shards_of(const fs::path& folder) {
  if (!fs::is_directory(folder) || fs::is_empty(folder)) return std::nullopt;
  // A set is stored in one way.
  const bool is_zstd = !glob_local((folder / "dataset-*.tfrecord.zst").string()).empty();
  const std::string ending = is_zstd ? ".tfrecord.zst" : ".tfrecord";
  return Shards::glob((folder / ("dataset-*" + ending)).string()).counts_from("dataset-{index}-{count}" + ending);
}

Dataset rows_of(const Shards& shards, const TfrecordOptions& reading, const MlmDataOptions& options) {
  return Dataset::tfrecord(shards, reading)
      .parse_example({fixed_len("input_ids", {options.max_length}, DType::kInt64).as(DType::kInt32),
                      fixed_len("attention_mask", {options.max_length}, DType::kInt64)});
}

Dataset masked(const Dataset& batches, const MlmDataOptions& options) {
  return batches.mask_tokens({.vocab_size = options.vocab_size,
                              .mask_token = options.mask_token,
                              .special_tokens = options.special_tokens,
                              .probability = options.mask_probability,
                              .seed = options.seed});
}

}  // namespace

MlmShards MlmShards::find(const std::string& folder) {
  const auto train = shards_of(fs::path(folder) / "train");
  if (!train) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("no shards in {}/train; prepare_tfrecord_shards writes them", folder));
  }
  MlmShards shards{.train = *train, .validation = shards_of(fs::path(folder) / "validation")};
  if (fs::exists(fs::path(folder) / "statistics.json")) shards.statistics = read_shard_statistics(folder);
  return shards;
}

Dataset mlm_training_batches(const MlmShards& shards, const MlmDataOptions& options) {
  const Dataset rows =
      rows_of(shards.train, {.shuffle_shards = true, .seed = options.seed, .damage = options.damage}, options);
  return masked(rows.shuffle(options.shuffle, {.seed = options.seed})
                    .batch(options.global_batch, {.drop_remainder = true}),
                options)
      .prefetch(2)
      .repeat();
}

Dataset mlm_synthetic_batches(const MlmDataOptions& options) {
  constexpr uint32_t kSpecialTokens = 5;
  const auto draw = [length = options.max_length, vocab_size = static_cast<uint32_t>(options.vocab_size),
                     rng = CounterRng(options.seed, operator_id("synthetic_tokens"))](const RowView& row,
                                                                                      RowWriter& out) {
    const auto number = static_cast<uint64_t>(row.value<int64_t>("row"));
    const auto ids = out.make<int32_t>("input_ids", {{length}});
    for (int64_t i = 0; i < length; ++i) {
      const uint32_t random = rng.words(number, static_cast<uint64_t>(i))[0];
      ids[static_cast<size_t>(i)] =
          static_cast<int32_t>(kSpecialTokens + uniform_below(random, vocab_size - kSpecialTokens));
    }
    std::ranges::fill(out.make<int64_t>("attention_mask", {{length}}), 1);
  };
  const Dataset rows =
      Dataset::range(0, std::numeric_limits<int64_t>::max(), 1, "row")
          .map({.name = "synthetic_tokens",
                .writes = {{.name = "input_ids", .dtype = DType::kInt32, .shape = {options.max_length}},
                           {.name = "attention_mask", .dtype = DType::kInt64, .shape = {options.max_length}}},
                .function = draw,
                .keep_others = false});
  return masked(rows.batch(options.global_batch, {.drop_remainder = true}), options).prefetch(2);
}

Dataset mlm_evaluation_batches(const MlmShards& shards, const MlmDataOptions& options) {
  const Dataset rows = rows_of(shards.validation.value(), {.cycle_length = 1, .damage = options.damage}, options);
  return masked(rows.batch(options.global_batch), options).prefetch(2);
}

}  // namespace millrace
