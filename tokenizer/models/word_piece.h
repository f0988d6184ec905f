#pragma once

#include "millrace/tokenizer/models/model.h"
#include "millrace/tokenizer/models/token_vocabulary.h"

namespace millrace {

/// The pieces of BERT (Wu 2016, https://arxiv.org/abs/1609.08144): a word becomes the longest token that it begins
/// with, then the longest, after the prefix of what continues words, that the rest begins with, and so on. A word of
/// which something is left over, or that is too long, is unknown as a whole.
class WordPieceModel final : public TokenModel {
 public:
  /// Reads `{"type": "WordPiece", "unk_token": …, "continuing_subword_prefix": …, "max_input_chars_per_word": …,
  /// "vocab": {token: id}}`.
  explicit WordPieceModel(const JsonNode& node);

  /// Throws `kInvalidArgument` when a word is unknown and the unknown token is not in the vocabulary.
  void tokenize(std::string_view word, std::vector<ModelToken>& tokens) const override;
  std::string_view text_of(const ModelToken& token, std::string_view) const override { return token_of(token.id); }
  int32_t size() const override { return vocabulary_.size(); }
  std::optional<int32_t> id_of(std::string_view token) const override { return vocabulary_.id_of(token); }
  std::string_view token_of(int32_t id) const override { return vocabulary_.token_of(id); }
  nlohmann::ordered_json to_json() const override;

 private:
  // Whether the vocabulary has pieces for all of the word; if not, some may have been appended.
  bool append_pieces(std::string_view word, std::vector<ModelToken>& tokens) const;

  TokenVocabulary vocabulary_;
  std::string unknown_;
  std::string prefix_;
  size_t max_characters_;
  ByteTrie::Node continuing_ = ByteTrie::kRoot;  // where tokens with the prefix go on, or kNowhere
  uint64_t cache_owner_;
};

}  // namespace millrace
