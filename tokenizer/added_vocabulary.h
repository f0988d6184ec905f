#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "millrace/tokenizer/added_tokens.h"
#include "millrace/tokenizer/byte_trie.h"
#include "millrace/tokenizer/json_node.h"
#include "millrace/tokenizer/models/model.h"
#include "millrace/tokenizer/normalizers/normalizer.h"

namespace millrace {

/// The added tokens of a file: those that the model has as well, and others whose ids follow after the model's without
/// gaps. Immutable; any thread.
class AddedVocabulary {
 public:
  AddedVocabulary() = default;
  /// Reads the list `added_tokens`. `normalizer` may be null. A token that is given again keeps the id of its first
  /// entry.
  AddedVocabulary(const JsonNode& list, const TokenModel& model, const Normalizer* normalizer);

  /// Tokens that the model does not have.
  int32_t size() const { return static_cast<int32_t>(after_model_.size()); }
  /// Of such a token; `index` counts from the first of them.
  const std::string& token(int32_t index) const { return after_model_[static_cast<size_t>(index)]; }
  std::optional<int32_t> id_of(std::string_view token) const { return after_model_ids_.find(token); }

  /// Whether a token has the text of a special one. Asked by text, as two ids of a model may have the same.
  bool is_special(std::string_view token) const { return special_.contains(token); }
  /// Of tokens in the text as it is given.
  const AddedTokenMatcher& raw() const { return raw_; }
  /// Of tokens in what the normalizer makes of it.
  const AddedTokenMatcher& normalized() const { return normalized_; }

  /// The list.
  nlohmann::ordered_json to_json() const;

 private:
  // Gives each token its id. Returns the number of the last entry of each text.
  std::map<std::string_view, size_t> place_after_model(const JsonNode& list, const TokenModel& model);

  std::vector<AddedToken> tokens_;
  std::vector<std::string> after_model_;
  ByteTrie after_model_ids_;
  std::set<std::string, std::less<>> special_;
  AddedTokenMatcher raw_;
  AddedTokenMatcher normalized_;
};

}  // namespace millrace
