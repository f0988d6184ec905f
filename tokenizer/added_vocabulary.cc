#include "millrace/tokenizer/added_vocabulary.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

AddedToken read_token(const JsonNode& node) {
  node.require_members_among({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  const auto flag = [&](std::string_view name) {
    const auto member = node.find(name);
    return member && member->boolean();
  };
  AddedToken token{.id = node.member("id").id(),
                   .content = node.member("content").string(),
                   .single_word = flag("single_word"),
                   .lstrip = flag("lstrip"),
                   .rstrip = flag("rstrip"),
                   .normalized = flag("normalized"),
                   .special = flag("special")};
  if (token.content.empty()) node.member("content").fail("an added token of no characters");
  return token;
}

}  // namespace

AddedVocabulary::AddedVocabulary(const JsonNode& list, const TokenModel& model, const Normalizer* normalizer) {
  for (size_t i = 0; i < list.num_elements(); ++i) tokens_.push_back(read_token(list.element(i)));
  place_after_model(list, model);
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  std::vector<std::string> raw_contents;
  std::vector<std::string> normalized_contents;
  for (const AddedToken& token : tokens_) {
    if (token.special) special_.insert(token.content);
    if (token.normalized) {
      normalized.push_back(token);
      normalized_contents.push_back(normalizer != nullptr ? normalizer->apply_to(token.content) : token.content);
    } else {
      raw.push_back(token);
      raw_contents.push_back(token.content);
    }
  }
  raw_ = AddedTokenMatcher(std::move(raw), raw_contents);
  normalized_ = AddedTokenMatcher(std::move(normalized), normalized_contents);
}

void AddedVocabulary::place_after_model(const JsonNode& list, const TokenModel& model) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    const std::optional<int32_t> in_model = model.id_of(token.content);
    const int32_t expected = in_model ? *in_model : model.size() + size();
    if (token.id != expected) {
      list.element(i).member("id").fail(fmt::format(
          "is {}, but '{}' {} {}", token.id, excerpt(token.content),
          in_model ? "has in the model's vocabulary the id" : "is the next after the model's vocabulary and must be",
          expected));
    }
    if (!in_model) after_model_.push_back(token.content);
  }
  std::vector<std::pair<std::string_view, int32_t>> entries;
  entries.reserve(after_model_.size());
  for (int32_t i = 0; i < size(); ++i) entries.emplace_back(token(i), model.size() + i);
  after_model_ids_ = ByteTrie(std::move(entries));
}

nlohmann::ordered_json AddedVocabulary::to_json() const {
  auto list = nlohmann::ordered_json::array();
  for (const AddedToken& token : tokens_) {
    list.push_back({{"id", token.id},
                    {"content", token.content},
                    {"single_word", token.single_word},
                    {"lstrip", token.lstrip},
                    {"rstrip", token.rstrip},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  }
  return list;
}

}  // namespace millrace
