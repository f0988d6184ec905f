#include "millrace/tokenizer/models/word_piece.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/utf8.h"
#include "millrace/tokenizer/models/word_cache.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {

WordPieceModel::WordPieceModel(const JsonNode& node)
    : vocabulary_(node.member("vocab")),
      unknown_(node.member("unk_token").string()),
      prefix_(node.member("continuing_subword_prefix").string()),
      max_characters_(node.member("max_input_chars_per_word").count()),
      cache_owner_(WordCache::new_owner()) {
  node.require_members_among({"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  for (const char byte : prefix_) {
    continuing_ = vocabulary_.trie().step(continuing_, byte);
    if (continuing_ == ByteTrie::kNowhere) break;
  }
}

bool WordPieceModel::append_pieces(std::string_view word, std::vector<ModelToken>& tokens) const {
  const ByteTrie& trie = vocabulary_.trie();
  for (size_t begin = 0; begin < word.size();) {
    ByteTrie::Node node = begin == 0 ? ByteTrie::kRoot : continuing_;
    int32_t id = -1;
    size_t end = begin;
    for (size_t at = begin; at < word.size() && node != ByteTrie::kNowhere;) {
      node = trie.step(node, word[at++]);
      if (node != ByteTrie::kNowhere && trie.value(node) >= 0) {
        id = trie.value(node);
        end = at;
      }
    }
    if (id < 0) return false;
    tokens.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    begin = end;
  }
  return true;
}

void WordPieceModel::tokenize(std::string_view word, std::vector<ModelToken>& tokens) const {
  WordCache& cache = WordCache::of_this_thread();
  if (cache.find(cache_owner_, word, tokens)) return;
  const size_t first = tokens.size();
  const bool too_long = word.size() > max_characters_ && num_characters(word) > max_characters_;
  if (too_long || !append_pieces(word, tokens)) {
    tokens.resize(first);
    const std::optional<int32_t> id = id_of(unknown_);
    if (!id) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("no pieces for '{}' are in the vocabulary, nor is the unknown token '{}' "
                                       "(model.unk_token)",
                                       excerpt(word), excerpt(unknown_)));
    }
    tokens.push_back({*id, 0, static_cast<uint32_t>(word.size())});
  }
  cache.store(cache_owner_, word, tokens, first);
}

nlohmann::ordered_json WordPieceModel::to_json() const {
  return {{"type", "WordPiece"},
          {"unk_token", unknown_},
          {"continuing_subword_prefix", prefix_},
          {"max_input_chars_per_word", max_characters_},
          {"vocab", vocabulary_.to_json()}};
}

}  // namespace millrace
