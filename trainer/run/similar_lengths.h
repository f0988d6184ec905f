#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/pipeline/dataset.h"

namespace millrace {

/// A text of a row: a vector of int32 ids, and one of int64 that is 1 where they are no padding.
struct TextFeatures {
  std::string ids = {};   ///< name of the feature, int32
  std::string mask = {};  ///< name of the feature, int64
  int64_t limit = 0;      ///< ids at most; at least 1
};

/// Batches of rows of any lengths, in few different shapes: each text of a batch is padded to a multiple of one number,
/// which cuts its limit into even parts of at most 32, or of so many more that no more shapes than `max_shapes` are
/// possible. A batch is no longer than rows that are padded to the limits, but for the rounding of the last part.
///
///     const SimilarLengths lengths({{"question_ids", "question_mask", 96}}, pad_token, 16);
///     const Dataset batches = lengths.batches(lengths.without_padding(rows).shuffle(2048).repeat(), 64);
class SimilarLengths {
 public:
  /// Throws `kInvalidArgument` without a text, and for a limit below 1.
  SimilarLengths(std::vector<TextFeatures> texts, int32_t pad_token, int64_t max_shapes);

  /// By text, what its lengths are multiples of.
  const std::vector<int64_t>& multiples() const { return multiples_; }
  /// Rows whose padding, if they have some, is cut off.
  Dataset without_padding(const Dataset& rows) const;
  /// Batches of rows of similar lengths, by the longest text (`bucket_by_sequence_length`); features that are no texts
  /// have a fixed size.
  Dataset batches(const Dataset& rows, int64_t batch_size) const;
  /// Batches in the order of the rows.
  Dataset batches_in_order(const Dataset& rows, int64_t batch_size) const;

 private:
  PaddedBatchOptions padding(const Dataset& rows) const;

  const std::vector<TextFeatures> texts_;
  const int32_t pad_token_;
  std::vector<int64_t> multiples_;
};

}  // namespace millrace
