#include "millrace/tokenizer/models/token_vocabulary.h"

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/json/parse_json.h"

namespace millrace {

TokenVocabulary::TokenVocabulary(const JsonNode& node) {
  if (!node.value().is_object()) node.fail("expected an object of tokens and their ids");
  const size_t size = node.value().size();
  if (size > std::numeric_limits<int32_t>::max()) node.fail("too many tokens");
  tokens_.resize(size);
  std::vector<bool> taken(size);
  for (const auto& [token, value] : node.value().items()) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= size || taken[value.get<size_t>()]) {
      node.member(token).fail(
          fmt::format("expected the ids from 0 to {}, each once; found {}", size - 1, shown_json(value)));
    }
    const auto id = value.get<size_t>();
    taken[id] = true;
    tokens_[id] = token;
  }
  std::vector<std::pair<std::string_view, int32_t>> entries;
  entries.reserve(size);
  for (size_t i = 0; i < size; ++i) entries.emplace_back(tokens_[i], static_cast<int32_t>(i));
  trie_ = ByteTrie(std::move(entries));
}

nlohmann::ordered_json TokenVocabulary::to_json() const {
  nlohmann::ordered_json vocabulary = nlohmann::ordered_json::object();
  // Not by name: each would be compared with all before it.
  auto& members = vocabulary.get_ref<nlohmann::ordered_json::object_t&>();
  for (size_t id = 0; id < tokens_.size(); ++id) members.emplace_back(tokens_[id], id);
  return vocabulary;
}

}  // namespace millrace
