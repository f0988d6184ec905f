#pragma once

#include <string>

#include "millrace/tokenizer/byte_trie.h"
#include "millrace/tokenizer/models/model.h"

namespace millrace {

/// A unigram language model over pieces (Kudo 2018, https://arxiv.org/abs/1804.10959): a word becomes the pieces with
/// the best sum of log probabilities. A character without a piece of its own costs the worst score minus 10 and is
/// unknown; neighbouring unknowns become one token, or the tokens of their bytes where the model has those.
class UnigramModel final : public TokenModel {
 public:
  /// Reads `{"type": "Unigram", "unk_id": …, "vocab": [[piece, score], …], "byte_fallback": …}`.
  explicit UnigramModel(const JsonNode& node);

  /// Throws `kInvalidArgument` when a character is unknown and the model has no unknown token.
  void tokenize(std::string_view word, std::vector<ModelToken>& tokens) const override;
  std::string_view text_of(const ModelToken& token, std::string_view word) const override {
    return token.id == unknown_id_ ? word.substr(token.begin, token.end - token.begin) : token_of(token.id);
  }
  int32_t size() const override { return static_cast<int32_t>(pieces_.size()); }
  std::optional<int32_t> id_of(std::string_view token) const override { return trie_.find(token); }
  std::string_view token_of(int32_t id) const override { return pieces_[static_cast<size_t>(id)]; }
  nlohmann::ordered_json to_json() const override;

 private:
  static constexpr int32_t kNoUnknown = -1;
  static constexpr int32_t kNoPiece = -1;

  void find_best_pieces(std::string_view word, std::vector<ModelToken>& tokens) const;
  // The tokens of their bytes, or the unknown token, in the place of pieces that there are not.
  void take_bytes_of_unknowns(std::string_view word, size_t first, std::vector<ModelToken>& tokens) const;

  std::vector<std::string> pieces_;
  std::vector<double> scores_;
  ByteTrie trie_;
  int32_t unknown_id_ = kNoUnknown;
  double unknown_score_ = 0;
  std::vector<int32_t> byte_ids_;  // with byte_fallback: of the piece for each byte, or kNoPiece
  uint64_t cache_owner_;
};

}  // namespace millrace
