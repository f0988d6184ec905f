#include "millrace/tokenizer/models/bpe.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/utf8.h"
#include "millrace/tokenizer/kept_memory.h"
#include "millrace/tokenizer/models/word_cache.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {
namespace {

// Two neighbours that may become one: the queue gives the lowest rank first, then the leftmost.
struct Candidate {
  int32_t rank;
  int32_t left;  // symbol
  int32_t id;    // of the token that they become

  bool operator<(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
};

std::optional<std::string> optional_string(const JsonNode& node, std::string_view name) {
  const auto member = node.find(name);
  return member ? std::optional(member->string()) : std::nullopt;
}

bool flag(const JsonNode& node, std::string_view name) {
  const auto member = node.find(name);
  return member && member->boolean();
}

// Files of merges begin with a line of their version, which older files have among the merges.
bool is_version(const JsonNode& merge) { return merge.value().is_string() && merge.string().starts_with("#version"); }

// The two tokens of a merge, which older files have as one string.
std::pair<std::string, std::string> merged_tokens(const JsonNode& merge) {
  if (!merge.value().is_string()) {
    if (merge.num_elements() != 2) merge.fail("expected two tokens");
    return {merge.element(0).string(), merge.element(1).string()};
  }
  const std::string both = merge.string();
  const size_t space = both.find(' ');
  if (space == std::string::npos || both.find(' ', space + 1) != std::string::npos) {
    merge.fail(fmt::format("expected two tokens with a space between them, found '{}'", excerpt(both)));
  }
  return {both.substr(0, space), both.substr(space + 1)};
}

}  // namespace

BpeModel::BpeModel(const JsonNode& node) : vocabulary_(node.member("vocab")), cache_owner_(WordCache::new_owner()) {
  node.require_members_among({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                              "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (const auto dropout = node.find("dropout"); dropout && dropout->value() != 0) {
    dropout->fail("merging by chance is not supported");
  }
  prefix_ = optional_string(node, "continuing_subword_prefix");
  suffix_ = optional_string(node, "end_of_word_suffix");
  fuse_unknown_ = flag(node, "fuse_unk");
  ignore_merges_ = flag(node, "ignore_merges");
  read_merges(node.member("merges"));
  unknown_ = optional_string(node, "unk_token");
  if (unknown_) unknown_id_ = id_of(*unknown_).value_or(kNone);
  if (flag(node, "byte_fallback")) {
    for (int byte = 0; byte < 256; ++byte) byte_ids_.push_back(id_of(fmt::format("<0x{:02X}>", byte)).value_or(kNone));
  }
}

void BpeModel::read_merges(const JsonNode& merges) {
  const size_t size = merges.num_elements();
  if (size > std::numeric_limits<int32_t>::max()) merges.fail("too many merges");
  merges_.reserve(size);
  merge_table_ = MergeTable(size);
  const size_t prefix_size = prefix_ ? prefix_->size() : 0;
  for (size_t i = 0; i < size; ++i) {
    const JsonNode merge = merges.element(i);
    if (is_version(merge)) continue;
    const auto [left, right] = merged_tokens(merge);
    const auto id = [&](const std::string& token) {
      const std::optional<int32_t> found = id_of(token);
      if (!found) merge.fail(fmt::format("'{}' is not in the vocabulary", excerpt(token)));
      return *found;
    };
    const std::pair<int32_t, int32_t> both{id(left), id(right)};
    if (right.size() < prefix_size)
      merge.fail(fmt::format("'{}' is shorter than the prefix '{}'", excerpt(right), excerpt(*prefix_)));
    const int32_t merged = id(left + right.substr(prefix_size));
    merge_table_.set(both.first, both.second, {.rank = static_cast<int32_t>(i), .id = merged});
    merges_.push_back(both);
  }
}

bool BpeModel::append_bytes(std::string_view character, std::vector<Symbol>& symbols) const {
  const auto id = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
  if (byte_ids_.empty()) return false;
  if (std::any_of(character.begin(), character.end(), [&](char byte) { return id(byte) == kNone; })) return false;
  for (const char byte : character) symbols.push_back({.id = id(byte), .size = 1});
  return true;
}

void BpeModel::append_characters(std::string_view word, std::vector<Symbol>& symbols) const {
  Symbol unknown{.id = unknown_id_, .size = 0};  // not yet among the symbols when it has a size
  std::string with_affixes;
  for (size_t at = 0; at < word.size();) {
    const uint32_t size = character_size(word[at]);
    const bool is_first = at == 0;
    const bool is_last = at + size == word.size();
    std::string_view character = word.substr(at, size);
    at += size;
    if ((prefix_ && !is_first) || (suffix_ && is_last)) {
      with_affixes = prefix_ && !is_first ? *prefix_ : "";
      with_affixes += character;
      if (suffix_ && is_last) with_affixes += *suffix_;
      character = with_affixes;
    }
    if (const std::optional<int32_t> id = vocabulary_.id_of(character)) {
      if (unknown.size > 0) symbols.push_back(unknown);
      unknown.size = 0;
      symbols.push_back({.id = *id, .size = size});
      continue;
    }
    if (append_bytes(character, symbols) || !unknown_) continue;
    if (unknown_id_ == kNone) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("'{}' is not in the vocabulary, nor is the unknown token '{}' (model.unk_token)",
                                       character, excerpt(*unknown_)));
    }
    if (unknown.size > 0 && !fuse_unknown_) {
      symbols.push_back(unknown);
      unknown.size = 0;
    }
    unknown.size += size;
  }
  if (unknown.size > 0) symbols.push_back(unknown);
}

void BpeModel::merge(std::vector<Symbol>& symbols) const {
  // Work space that each thread keeps.
  static thread_local std::vector<Candidate> queue;
  const KeptMemoryUse use(queue);
  queue.clear();
  const auto offer = [&](int32_t left, int32_t right) {
    const auto merge = merge_table_.find(symbols[static_cast<size_t>(left)].id, symbols[static_cast<size_t>(right)].id);
    if (merge) queue.push_back({merge->rank, left, merge->id});
    return merge.has_value();
  };
  const auto count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[static_cast<size_t>(i)].previous = i - 1;
    symbols[static_cast<size_t>(i)].next = i + 1 < count ? i + 1 : kNone;
    if (i > 0) offer(i - 1, i);
  }
  std::make_heap(queue.begin(), queue.end());
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end());
    const Candidate best = queue.back();
    queue.pop_back();
    Symbol& left = symbols[static_cast<size_t>(best.left)];
    if (left.size == 0 || left.next == kNone) continue;
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    // Either may have become another token since.
    const auto merge = merge_table_.find(left.id, right.id);
    if (!merge || merge->id != best.id) continue;
    left.id = best.id;
    left.size += right.size;
    right.size = 0;
    left.next = right.next;
    if (left.next != kNone) symbols[static_cast<size_t>(left.next)].previous = best.left;
    if (left.previous != kNone && offer(left.previous, best.left)) std::push_heap(queue.begin(), queue.end());
    if (left.next != kNone && offer(best.left, left.next)) std::push_heap(queue.begin(), queue.end());
  }
}

void BpeModel::tokenize(std::string_view word, std::vector<ModelToken>& tokens) const {
  WordCache& cache = WordCache::of_this_thread();
  if (cache.find(cache_owner_, word, tokens)) return;
  const size_t first = tokens.size();
  const std::optional<int32_t> whole = ignore_merges_ ? vocabulary_.id_of(word) : std::nullopt;
  if (whole) {
    tokens.push_back({*whole, 0, static_cast<uint32_t>(word.size())});
  } else {
    // Work space that each thread keeps.
    static thread_local std::vector<Symbol> symbols;
    const KeptMemoryUse use(symbols);
    symbols.clear();
    append_characters(word, symbols);
    merge(symbols);
    uint32_t begin = 0;
    for (const Symbol& symbol : symbols) {
      if (symbol.size == 0) continue;
      tokens.push_back({symbol.id, begin, begin + symbol.size});
      begin += symbol.size;
    }
  }
  cache.store(cache_owner_, word, tokens, first);
}

nlohmann::ordered_json BpeModel::to_json() const {
  const auto or_null = [](const std::optional<std::string>& text) {
    return text ? nlohmann::ordered_json(*text) : nlohmann::ordered_json();
  };
  nlohmann::ordered_json merges = nlohmann::ordered_json::array();
  for (const auto& [left, right] : merges_) {
    merges.push_back(nlohmann::ordered_json::array({token_of(left), token_of(right)}));
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", or_null(unknown_)},
          {"continuing_subword_prefix", or_null(prefix_)},
          {"end_of_word_suffix", or_null(suffix_)},
          {"fuse_unk", fuse_unknown_},
          {"byte_fallback", !byte_ids_.empty()},
          {"ignore_merges", ignore_merges_},
          {"vocab", vocabulary_.to_json()},
          {"merges", std::move(merges)}};
}

}  // namespace millrace
