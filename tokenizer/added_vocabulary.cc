#include "millrace/tokenizer/added_vocabulary.h"

#include <array>
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
  const std::map<std::string_view, size_t> last_of = place_after_model(list, model);
  // As the package has them: special ones first, each as its first special entry; where a token is looked for, each
  // entry says for itself, and what else it does, the last one of its text.
  std::array<std::vector<AddedToken>, 2> tokens;
  std::array<std::vector<std::string>, 2> contents;
  const auto look_for = [&](const AddedToken& token) {
    tokens[token.normalized].push_back(tokens_[last_of.at(token.content)]);
    contents[token.normalized].push_back(token.normalized && normalizer != nullptr ? normalizer->apply_to(token.content)
                                                                                   : token.content);
  };
  for (const AddedToken& token : tokens_) {
    if (token.special && special_.insert(token.content).second) look_for(token);
  }
  for (const AddedToken& token : tokens_) {
    if (!special_.contains(token.content)) look_for(token);
  }
  raw_ = AddedTokenMatcher(std::move(tokens[0]), contents[0]);
  normalized_ = AddedTokenMatcher(std::move(tokens[1]), contents[1]);
}

std::map<std::string_view, size_t> AddedVocabulary::place_after_model(const JsonNode& list, const TokenModel& model) {
  std::map<std::string_view, size_t> last_of;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    AddedToken& token = tokens_[i];
    const auto [last, is_new] = last_of.try_emplace(token.content, i);
    if (!is_new) {
      token.id = tokens_[std::exchange(last->second, i)].id;
      continue;
    }
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
  return last_of;
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
