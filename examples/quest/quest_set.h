#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "examples/quest/quest_rows.h"
#include "examples/quest/sequences.h"
#include "millrace/trainer/models/question_answer_roberta.h"
#include "millrace/trainer/run/shard_set_place.h"

namespace millrace {

/// What a model, its tokenizer and the rows that it reads agree in: part of statistics.json, and quest.json of a model.
struct QuestFormat {
  std::vector<QuestTarget> targets = {};
  SequenceLimits limits = {};
  int64_t vocabulary_size = 0;        ///< of the tokenizer
  int32_t pad_token = 0;              ///< the tokenizer's
  std::string tokenizer_digest = {};  ///< XXH3 of its file
  int64_t folds = 0;                  ///< of the cross validation
  std::string split_digest = {};      ///< XXH3 of the rows, their labels and their folds

  QuestionAnswerTargets by_head() const;
  /// Throws `kInvalidArgument` saying what differs unless both are the same; `mine`, `others`: of what, for messages.
  void check_same(const QuestFormat& other, const std::string& mine, const std::string& others) const;
  /// Throws `kInvalidArgument` unless this file is the tokenizer; `made_by`: what was made with it, for messages.
  void check_tokenizer(const std::string& tokenizer_file, const std::string& made_by) const;
};

/// What is in a set of shards: statistics.json.
struct QuestStatistics {
  QuestFormat format = {};
  bool padded = true;  ///< whether rows are padded to the limits
  int64_t rows = 0;
  int64_t groups = 0;
  int64_t largest_group = 0;            ///< its rows
  std::vector<int64_t> fold_rows = {};  ///< by fold, the rows that are validated on
  int64_t question_tokens = 0;          ///< of all rows, without padding
  int64_t answer_tokens = 0;
  int64_t cut_rows = 0;  ///< of which a text was longer than its limit

  /// `train-0-4800-96-96.tfrec`, `valid-0-1200-96-96.tfrec`.
  std::string shard_name(bool train, int64_t fold) const;
};

std::string to_json(const QuestFormat& format);
std::string to_json(const QuestStatistics& statistics);

/// A row as `tensorflow.Example`: int64 `input_ids_question`, `input_mask_question`, `input_ids_answer` and
/// `input_mask_answer`, padded to the limits unless told otherwise, and float `labels`, one for each target.
std::string quest_record(const Sequences& sequences, std::span<const float> labels, const SequenceEncoder& encoder,
                         bool padded = true);

struct QuestSetOptions {
  int folds = 5;       ///< Default: 5
  bool padded = true;  ///< Default: true
  int threads = 0;     ///< that encode; 0: one for each core. The files do not depend on it. Default: 0
  std::function<bool()> stop_requested = nullptr;           ///< asked now and then, by any thread. Default: never
  std::function<void(int64_t rows)> on_progress = nullptr;  ///< told how many are written. Default: nobody is
  std::vector<ShardSetFile> elsewhere = {};                 ///< `ShardSetWriter::add_elsewhere`, by path. Default: none
};

/// Writes rows as a set of shards (ShardSetWriter): for each fold one with its rows and one with all others,
///
///     train-{fold}-{count}-{max_question}-{max_answer}.tfrec  valid-{fold}-...  statistics.json  folds.csv
///
/// folds.csv says in which fold each row is validated on, in the order of the rows, which is that of a shard.
///
/// Nothing when it was asked to stop. Throws as the encoder, `folds_of` and ShardSetWriter, which says what then stays.
std::optional<QuestStatistics> write_quest_set(const QuestRows& rows, const SequenceEncoder& encoder,
                                               const std::string& folder, const QuestSetOptions& options = {});
/// Reads statistics.json of a set, which is there only when the set is whole, and looks for the shards. Throws
/// MissingData without it, `kParse` naming it, also for fewer than two folds, `kInvalidArgument` for a missing shard.
QuestStatistics read_quest_set(const std::string& folder);
/// Reads quest.json in the folder of a model. Throws the same.
QuestFormat read_quest_format(const std::string& folder);

}  // namespace millrace
