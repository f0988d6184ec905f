#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "millrace/tokenizer/byte_trie.h"
#include "millrace/tokenizer/json_node.h"

namespace millrace {

/// The tokens of a model that has an id for each, from 0 on without gaps. Immutable; any thread.
class TokenVocabulary {
 public:
  /// Reads `{token: id, …}`.
  explicit TokenVocabulary(const JsonNode& node);

  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  std::optional<int32_t> id_of(std::string_view token) const { return trie_.find(token); }
  /// `id` is in [0, size()).
  std::string_view token_of(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  const ByteTrie& trie() const { return trie_; }
  /// The object, in the order of the ids.
  nlohmann::ordered_json to_json() const;

 private:
  std::vector<std::string> tokens_;
  ByteTrie trie_;
};

}  // namespace millrace
