#include "examples/quest/quest_data.h"

#include <utility>

#include <fmt/format.h>

#include "millrace/command_line/given_options.h"
#include "millrace/formats/storage/remote/routed_storage.h"

namespace millrace {

QuestData::QuestData(std::string folder, const QuestStatistics& set, int64_t fold, const QuestDataOptions& options)
    : folder_(std::move(folder)),
      set_(set),
      fold_(fold),
      options_(options),
      lengths_({{"question_ids", "question_mask", set.format.limits.question},
                {"answer_ids", "answer_mask", set.format.limits.answer}},
               set.format.pad_token, options.max_shapes) {
  const auto folds = std::ssize(set.fold_rows);
  require(fold >= 0 && fold < folds, fmt::format("{} has the folds 0 to {}, and no fold {}", folder_, folds - 1, fold));
  require(set.padded || options.dynamic, folder_ + " holds rows without padding, which need --dynamic");
}

std::string QuestData::describe() const {
  const int64_t rows = set_.fold_rows[static_cast<size_t>(fold_)];
  const std::string shapes = fmt::format(", {} shapes at most", options_.max_shapes);
  return fmt::format("fold {}: {} rows to train on, {} to validate on; global batch {}, shuffle {}{}", fold_,
                     set_.rows - rows, rows, options_.global_batch, options_.shuffle, options_.dynamic ? shapes : "");
}

Dataset parse_quest(const Dataset& records, const QuestFormat& format, bool padded, bool labelled) {
  const auto tokens = [&](const std::string& key, int64_t length) {
    return padded ? fixed_len(key, {length}, DType::kInt64) : var_len(key, DType::kInt64);
  };
  const SequenceLimits& limits = format.limits;
  std::vector<FeatureDescription> features = {
      tokens("input_ids_question", limits.question).as(DType::kInt32), tokens("input_mask_question", limits.question),
      tokens("input_ids_answer", limits.answer).as(DType::kInt32), tokens("input_mask_answer", limits.answer)};
  if (labelled) features.push_back(fixed_len("labels", {std::ssize(format.targets)}, DType::kFloat32));
  return records.parse_example(features).rename({{"input_ids_question", "question_ids"},
                                                 {"input_mask_question", "question_mask"},
                                                 {"input_ids_answer", "answer_ids"},
                                                 {"input_mask_answer", "answer_mask"}});
}

Dataset QuestData::rows(bool train) const {
  const Dataset records = Dataset::tfrecord(Shards::files(located({path_in(folder_, set_.shard_name(train, fold_))})),
                                            {.damage = options_.damage});
  const Dataset parsed = parse_quest(records, set_.format, !options_.dynamic, /*labelled=*/true);
  return options_.dynamic ? lengths_.without_padding(parsed) : parsed;
}

Dataset QuestData::training_batches() const {
  const Dataset endless = rows(/*train=*/true).cache().shuffle(options_.shuffle, {.seed = options_.seed}).repeat();
  return (options_.dynamic ? lengths_.batches(endless, options_.global_batch) : endless.batch(options_.global_batch))
      .prefetch(2);
}

Dataset QuestData::validation_batches() const {
  const Dataset in_order = rows(/*train=*/false);
  return (options_.dynamic ? lengths_.batches_in_order(in_order, options_.global_batch)
                           : in_order.batch(options_.global_batch))
      .prefetch(2);
}

}  // namespace millrace
