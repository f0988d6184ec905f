#include "millrace/tokenizer/models/word_level.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/utf8.h"

namespace millrace {

WordLevelModel::WordLevelModel(const JsonNode& node)
    : vocabulary_(node.member("vocab")), unknown_(node.member("unk_token").string()) {
  node.require_members_among({"type", "vocab", "unk_token"});
}

void WordLevelModel::tokenize(std::string_view word, std::vector<ModelToken>& tokens) const {
  std::optional<int32_t> id = id_of(word);
  if (!id) id = id_of(unknown_);
  if (!id) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("'{}' is not in the vocabulary, nor is the unknown token '{}' (model.unk_token)",
                                     excerpt(word), excerpt(unknown_)));
  }
  tokens.push_back({*id, 0, static_cast<uint32_t>(word.size())});
}

nlohmann::ordered_json WordLevelModel::to_json() const {
  return {{"type", "WordLevel"}, {"vocab", vocabulary_.to_json()}, {"unk_token", unknown_}};
}

}  // namespace millrace
