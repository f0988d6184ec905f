#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "examples/text_to_text/text_encoder.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/trainer/run/split.h"

namespace millrace {

/// The folder that prepare_text_to_text wrote, or its URL.
class PreparedRows {
 public:
  /// Throws `kIo` or `kParse` for a folder without such a set, and `kInvalidArgument` for one in which a file is
  /// missing, or its tokenizer is of another vocabulary.
  explicit PreparedRows(const std::string& folder);

  std::string tokenizer_file() const { return path_in(folder_, "tokenizer.json"); }
  const TextEncoder& encoder() const { return *encoder_; }
  int32_t vocab_size() const { return vocab_size_; }
  int64_t num_rows(size_t split) const { return num_rows_[split]; }

  /// The rows of a split in order, once: int32 `input_ids`, int64 `attention_mask` and `class`; with `labels` these,
  /// int32, and int64 `decoder_attention_mask`.
  [[nodiscard]] Dataset rows(size_t split, bool labels, const DamagePolicy& damage = {}) const;
  /// Batches to train on, forever. Rows are kept in memory; each epoch has its own order, and ends with a short batch.
  [[nodiscard]] Dataset training_batches(int64_t batch, int64_t shuffle, uint64_t seed,
                                         const DamagePolicy& damage) const;

 private:
  std::string folder_;
  int32_t vocab_size_ = 0;
  std::array<int64_t, kSplitNames.size()> num_rows_ = {};
  std::optional<TextEncoder> encoder_;
};

}  // namespace millrace
