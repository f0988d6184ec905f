#include "examples/quest/quest_set.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "examples/csv/csv_table.h"
#include "millrace/command_line/given_options.h"
#include "millrace/formats/error.h"
#include "millrace/formats/example/writer.h"
#include "millrace/formats/json/read_json.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/trainer/run/cross_validation.h"
#include "millrace/trainer/run/missing_data.h"
#include "millrace/trainer/run/ordered_work.h"
#include "millrace/trainer/run/shard_set_writer.h"
#include "millrace/trainer/run/tokenizer_files.h"

namespace millrace {

NLOHMANN_JSON_SERIALIZE_ENUM(Head, {{Head::kQuestion, kHeadNames[0]},
                                    {Head::kAnswer, kHeadNames[1]},
                                    {Head::kJoint, kHeadNames[2]}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(QuestTarget, name, head)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SequenceLimits, question, answer, title)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(QuestFormat, targets, limits, vocabulary_size, pad_token, tokenizer_digest, folds,
                                   split_digest)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(QuestStatistics, format, padded, rows, groups, largest_group, fold_rows,
                                   question_tokens, answer_tokens, cut_rows)

namespace {

std::string digest_of(const std::string& bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

std::string digest_of(const QuestRows& rows, const std::vector<int>& folds) {
  std::string digests;
  for (size_t i = 0; i < folds.size(); ++i) {
    const QuestRow& row = rows.rows[i];
    digests += digest_of(csv_record(
        {row.id, row.title, row.body, row.answer, fmt::format("{} {}", folds[i], fmt::join(row.labels, " "))}));
  }
  return digest_of(digests);
}

// A row on its way through the preparation. Its memory is used again.
struct RowInFlight {
  size_t row = 0;
  Sequences sequences = {};
  std::string record = {};
};

}  // namespace

QuestionAnswerTargets QuestFormat::by_head() const {
  QuestionAnswerTargets result;
  for (int64_t i = 0; i < std::ssize(targets); ++i) {
    const Head head = targets[static_cast<size_t>(i)].head;
    (head == Head::kQuestion ? result.question : head == Head::kAnswer ? result.answer : result.joint).push_back(i);
  }
  return result;
}

void QuestFormat::check_tokenizer(const std::string& tokenizer_file, const std::string& made_by) const {
  require(millrace::tokenizer_digest(tokenizer_file) == tokenizer_digest,
          fmt::format("{} is another tokenizer than that of {} tokens which {} was made with", tokenizer_file,
                      vocabulary_size, made_by));
}

void QuestFormat::check_same(const QuestFormat& other, const std::string& mine, const std::string& others) const {
  std::string_view what;
  if (folds != other.folds || split_digest != other.split_digest) what = "another split of rows into folds";
  if (tokenizer_digest != other.tokenizer_digest) what = "another tokenizer";
  if (limits != other.limits) what = "other limits";
  if (targets != other.targets) what = "other targets";
  require(what.empty(), fmt::format("{} has {} than {}; both must be of one prepare_quest", mine, what, others));
}

std::string QuestStatistics::shard_name(bool train, int64_t fold) const {
  const int64_t valid_rows = fold_rows.at(static_cast<size_t>(fold));
  return fmt::format("{}-{}-{}-{}-{}.tfrec", train ? "train" : "valid", fold, train ? rows - valid_rows : valid_rows,
                     format.limits.question, format.limits.answer);
}

std::string to_json(const QuestFormat& format) { return nlohmann::json(format).dump(2) + "\n"; }
std::string to_json(const QuestStatistics& statistics) { return nlohmann::json(statistics).dump(2) + "\n"; }

std::string quest_record(const Sequences& sequences, std::span<const float> labels, const SequenceEncoder& encoder,
                         bool padded) {
  ExampleWriter example;
  const auto add = [&](const std::string& name, std::vector<int32_t> ids, int64_t limit) {
    std::vector<int32_t> mask(ids.size(), 1);
    ids.resize(padded ? static_cast<size_t>(limit) : ids.size(), encoder.tokens().pad);
    mask.resize(ids.size());
    example.add("input_ids_" + name, std::span<const int32_t>(ids));
    example.add("input_mask_" + name, std::span<const int32_t>(mask));
  };
  add("question", sequences.question, encoder.limits().question);
  add("answer", sequences.answer, encoder.limits().answer);
  example.add("labels", labels);
  return example.finish();
}

std::optional<QuestStatistics> write_quest_set(const QuestRows& rows, const SequenceEncoder& encoder,
                                               const std::string& folder, const QuestSetOptions& options) {
  std::vector<std::vector<std::string>> keys(rows.rows.size());
  std::ranges::transform(rows.rows, keys.begin(), &QuestRow::keys);
  const std::vector<size_t> groups = groups_of(keys);
  const std::vector<int> folds = folds_of(groups, options.folds);
  QuestStatistics statistics{.format = {.targets = rows.targets,
                                        .limits = encoder.limits(),
                                        .vocabulary_size = encoder.tokens().vocabulary_size,
                                        .pad_token = encoder.tokens().pad,
                                        .tokenizer_digest = tokenizer_digest(encoder.tokens().file),
                                        .folds = options.folds,
                                        .split_digest = digest_of(rows, folds)},
                             .padded = options.padded,
                             .rows = std::ssize(rows.rows)};
  std::vector<int64_t> group_rows(rows.rows.size());
  for (const size_t group : groups) statistics.largest_group = std::max(statistics.largest_group, ++group_rows[group]);
  statistics.groups = std::ranges::count_if(group_rows, [](int64_t count) { return count > 0; });
  for (int fold = 0; fold < options.folds; ++fold) statistics.fold_rows.push_back(std::ranges::count(folds, fold));
  ShardSetOptions shards = {.shard_names = "(train|valid)-[0-9]+-[0-9]+-[0-9]+-[0-9]+\\.tfrec"};
  for (int split = 0; split < 2 * options.folds; ++split) {  // of each fold those to train on, then its own
    shards.splits.push_back({.file_name = [name = statistics.shard_name(split % 2 == 0, split / 2)](int64_t, int64_t) {
      return std::string(name);
    }});
  }
  ShardSetWriter writer(folder, std::move(shards));
  for (const ShardSetFile& file : options.elsewhere) writer.add_elsewhere(file.name, file.text);
  size_t num_read = 0;
  const bool finished = work_in_order<RowInFlight>(
      checked_threads(options.threads), options.stop_requested,
      [&](RowInFlight& work) {
        work.row = num_read++;
        return work.row < rows.rows.size();
      },
      [&](RowInFlight& work) {
        work.sequences = encoder.encode(rows.rows[work.row]);
        work.record = quest_record(work.sequences, rows.rows[work.row].labels, encoder, options.padded);
      },
      [&](RowInFlight& work) {
        for (int fold = 0; fold < options.folds; ++fold) {
          writer.write(2 * static_cast<size_t>(fold) + (folds[work.row] == fold ? 1 : 0), work.record);
        }
        statistics.question_tokens += std::ssize(work.sequences.question);
        statistics.answer_tokens += std::ssize(work.sequences.answer);
        statistics.cut_rows += work.sequences.cut ? 1 : 0;
        if (options.on_progress) options.on_progress(static_cast<int64_t>(work.row) + 1);
      });
  if (!finished) return std::nullopt;
  std::string fold_of_row = "qa_id,fold\n";
  for (size_t i = 0; i < folds.size(); ++i) fold_of_row += csv_record({rows.rows[i].id, std::to_string(folds[i])});
  writer.commit({{.name = "statistics.json", .text = to_json(statistics)},
                 {.name = "folds.csv", .text = std::move(fold_of_row)}});
  return statistics;
}

QuestFormat read_quest_format(const std::string& folder) {
  return read_json<QuestFormat>(folder + "/quest.json", "format of a question quality model");
}

QuestStatistics read_quest_set(const std::string& folder) {
  const std::string path = path_in(folder, "statistics.json");
  const std::optional<std::string> text = find_whole_anywhere(path, "statistics of a set of shards");
  if (!text) throw MissingData(fmt::format("there is no {}; prepare_quest writes it", path));
  auto statistics = json_as<QuestStatistics>(*text, path);
  if (const auto folds = std::ssize(statistics.fold_rows); folds < 2 || folds != statistics.format.folds) {
    throw ErrorException({.code = ErrorCode::kParse,
                          .message = fmt::format("{} folds, of which {} have rows", statistics.format.folds, folds),
                          .shard = path});
  }
  for (int64_t i = 0; i < 2 * std::ssize(statistics.fold_rows); ++i) {
    const std::string shard = path_in(folder, statistics.shard_name(i % 2 == 0, i / 2));
    require(exists_anywhere(shard),
            fmt::format("fold {} is not whole: {} is missing; run prepare_quest again", i / 2, shard));
  }
  return statistics;
}

}  // namespace millrace
