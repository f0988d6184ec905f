#pragma once

#include <string>
#include <utility>
#include <vector>

#include "millrace/tokenizer/models/merge_table.h"
#include "millrace/tokenizer/models/model.h"
#include "millrace/tokenizer/models/token_vocabulary.h"

namespace millrace {

/// Byte pair encoding (Sennrich 2015, https://arxiv.org/abs/1508.07909): a word begins as the tokens of its characters,
/// and of the neighbours that may become one token, those with the lowest rank do, the leftmost first, until none are
/// left. A character without a token is unknown; without an unknown token it is left out.
class BpeModel final : public TokenModel {
 public:
  /// Reads `{"type": "BPE", "vocab": {token: id}, "merges": [[left, right]] or ["left right"], "unk_token": …,
  /// "continuing_subword_prefix": …, "end_of_word_suffix": …, "fuse_unk": …, "byte_fallback": …, "ignore_merges": …}`.
  /// Merging by chance (`dropout`) is refused.
  explicit BpeModel(const JsonNode& node);

  /// Throws `kInvalidArgument` when a character is unknown and the unknown token is not in the vocabulary.
  void tokenize(std::string_view word, std::vector<ModelToken>& tokens) const override;
  std::string_view text_of(const ModelToken& token, std::string_view) const override { return token_of(token.id); }
  int32_t size() const override { return vocabulary_.size(); }
  std::optional<int32_t> id_of(std::string_view token) const override { return vocabulary_.id_of(token); }
  std::string_view token_of(int32_t id) const override { return vocabulary_.token_of(id); }
  nlohmann::ordered_json to_json() const override;

 private:
  static constexpr int32_t kNone = -1;

  // A token of a word that is being merged, linked to its neighbours.
  struct Symbol {
    int32_t id;
    uint32_t size;  // bytes; 0: it went into the one before it
    int32_t previous;
    int32_t next;
  };

  void read_merges(const JsonNode& merges);
  void append_characters(std::string_view word, std::vector<Symbol>& symbols) const;
  bool append_bytes(std::string_view character, std::vector<Symbol>& symbols) const;
  void merge(std::vector<Symbol>& symbols) const;

  TokenVocabulary vocabulary_;
  std::vector<std::pair<int32_t, int32_t>> merges_;  // in order of rank
  MergeTable merge_table_{0};
  std::vector<int32_t> byte_ids_;       // with byte_fallback: of the token for each byte, or kNone
  std::optional<std::string> unknown_;  // none: unknown characters are left out
  int32_t unknown_id_ = kNone;          // also when the vocabulary does not have it
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
  std::optional<std::string> prefix_;  // of all characters but a word's first
  std::optional<std::string> suffix_;  // of a word's last character
  uint64_t cache_owner_;
};

}  // namespace millrace
