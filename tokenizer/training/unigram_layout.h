#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/training/unigram_trainer.h"

namespace millrace {

/// A learnt piece of a vocabulary and its log-probability.
using UnigramPiece = std::pair<std::string, float>;

/// What a `UnigramLayout` is made of.
struct UnigramFile {
  std::vector<std::string> first;  ///< special tokens, ids from 0
  std::vector<std::string> last;   ///< those after the learnt pieces
  nlohmann::ordered_json json;     ///< the file but for its vocabulary
  /// sentencepiece's options for the first ones.
  std::vector<std::pair<std::string, std::string>> learning;

  int32_t num_special() const { return static_cast<int32_t>(first.size() + last.size()); }
};

/// The same id in each layout.
inline constexpr int32_t kUnigramUnknownId = 2;

/// `vocab_size`: with all special tokens.
[[nodiscard]] UnigramFile unigram_file(UnigramLayout layout, int32_t vocab_size);

}  // namespace millrace
