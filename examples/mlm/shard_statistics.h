#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "millrace/trainer/run/split.h"

namespace millrace {

struct SplitStatistics {
  int64_t rows = 0;             ///< lines of text
  int64_t shards = 0;           ///< files
  int64_t records = 0;          ///< in all of them
  int64_t tokens = 0;           ///< in the records
  int64_t ordinary_tokens = 0;  ///< of these, all but the tokenizer's special ones
  int64_t dropped_tokens = 0;   ///< remainders of groups, in no record
  friend bool operator==(const SplitStatistics&, const SplitStatistics&) = default;
};

/// What is in a set of shards.
struct ShardStatistics {
  int32_t vocabulary_size = 0;
  std::string tokenizer_digest = {};  ///< empty: not known, as of sets that were written before 0.2
  int64_t max_length = 0;             ///< tokens in a record
  SplitStatistics train;
  SplitStatistics validation;
  /// See `unigram_cross_entropy`, in nats a token. None when the validation split has no ordinary token.
  std::optional<double> unigram_entropy;
  /// Ordinary tokens of the validation split that never occur in the training split.
  int64_t unseen_tokens = 0;

  SplitStatistics& of(Split split) { return split == Split::kTrain ? train : validation; }
  const SplitStatistics& of(Split split) const { return split == Split::kTrain ? train : validation; }
  friend bool operator==(const ShardStatistics&, const ShardStatistics&) = default;
};

/// Nats that a token of the second text costs under a model that knows nothing but how often each token occurs in the
/// first: what a language model must beat. `train_counts` and `validation_counts` say how often each token of one
/// vocabulary occurs. Probabilities are the frequencies in the first text, where a token that never occurs there counts
/// as if it did once: p(t) = max(count(t), 1) / sum over the vocabulary of max(count, 1). None when the second text is
/// empty.
std::optional<double> unigram_cross_entropy(std::span<const int64_t> train_counts,
                                            std::span<const int64_t> validation_counts);

/// One JSON object, several lines, ending with a newline.
std::string to_json(const ShardStatistics& statistics);

/// Reads `statistics.json` in the folder, or at the URL, of a set of shards; nothing where it is not there, as of a set
/// that is not whole. Throws `kIo` or `kParse` naming the file.
std::optional<ShardStatistics> find_shard_statistics(const std::string& folder);

}  // namespace millrace
