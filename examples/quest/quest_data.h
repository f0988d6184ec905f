#pragma once

#include <cstdint>
#include <string>

#include "examples/quest/quest_set.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/trainer/run/similar_lengths.h"

namespace millrace {

struct QuestDataOptions {
  int64_t global_batch = 64;
  int64_t shuffle = 2048;   ///< rows in the shuffle buffer. Default: 2,048
  uint64_t seed = 0;        ///< of the order
  bool dynamic = false;     ///< SimilarLengths. Default: false, all rows are padded to the limits
  int64_t max_shapes = 16;  ///< of `dynamic`. Default: 16
  DamagePolicy damage = {};
};

/// `quest_record`s as QuestionAnswerRoberta reads them: ids int32, masks int64, under names of their own.
Dataset parse_quest(const Dataset& records, const QuestFormat& format, bool padded, bool labelled);

/// The shards of one fold, in the folder of a set, as QuestionAnswerRoberta reads them.
class QuestData {
 public:
  /// Throws `kInvalidArgument` for a fold that the set does not have, and unpadded rows without `dynamic`.
  QuestData(std::string folder, const QuestStatistics& set, int64_t fold, const QuestDataOptions& options);

  /// Batches to train on, forever; parsed rows stay in memory.
  Dataset training_batches() const;
  /// The fold's rows in order, once; the last batch may be short.
  Dataset validation_batches() const;
  /// What the batches are, in words.
  std::string describe() const;

 private:
  Dataset rows(bool train) const;

  const std::string folder_;
  const QuestStatistics set_;
  const int64_t fold_;
  const QuestDataOptions options_;
  const SimilarLengths lengths_;
};

}  // namespace millrace
