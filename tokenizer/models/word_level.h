#pragma once

#include "millrace/tokenizer/models/model.h"
#include "millrace/tokenizer/models/token_vocabulary.h"

namespace millrace {

/// Each word is a token, or is unknown.
class WordLevelModel final : public TokenModel {
 public:
  /// Reads `{"type": "WordLevel", "vocab": {token: id}, "unk_token": …}`.
  explicit WordLevelModel(const JsonNode& node);

  /// Throws `kInvalidArgument` when a word is unknown and the unknown token is not in the vocabulary.
  void tokenize(std::string_view word, std::vector<ModelToken>& tokens) const override;
  std::string_view text_of(const ModelToken& token, std::string_view) const override { return token_of(token.id); }
  int32_t size() const override { return vocabulary_.size(); }
  std::optional<int32_t> id_of(std::string_view token) const override { return vocabulary_.id_of(token); }
  std::string_view token_of(int32_t id) const override { return vocabulary_.token_of(id); }
  nlohmann::ordered_json to_json() const override;

 private:
  TokenVocabulary vocabulary_;
  std::string unknown_;
};

}  // namespace millrace
