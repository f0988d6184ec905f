#pragma once

#include <string>

#include "tokenizer/byte_trie.h"
#include "tokenizer/models/model.h"

namespace millrace {

/// A unigram language model over pieces (Kudo 2018, https://arxiv.org/abs/1804.10959): a word becomes the pieces with
/// the best sum of log probabilities. A character without a piece of its own costs the worst score minus 10 and is
/// unknown; neighbouring unknowns become one token.
class UnigramModel final : public TokenModel {
 public:
  /// Reads `{"type": "Unigram", "unk_id": …, "vocab": [[piece, score], …]}`.
  explicit UnigramModel(const JsonNode& node);

  /// Throws `kInvalidArgument` when a character is unknown and the model has no unknown token.
  void tokenize(std::string_view word, std::vector<ModelToken>& tokens) const override;
  int32_t size() const override { return static_cast<int32_t>(pieces_.size()); }
  std::optional<int32_t> id_of(std::string_view token) const override { return trie_.find(token); }
  std::string_view token_of(int32_t id) const override { return pieces_[static_cast<size_t>(id)]; }

 private:
  static constexpr int32_t kNoUnknown = -1;

  std::vector<std::string> pieces_;
  std::vector<double> scores_;
  ByteTrie trie_;
  int32_t unknown_id_ = kNoUnknown;
  double unknown_score_ = 0;
};

}  // namespace millrace
