#include "millrace/tokenizer/models/unigram.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/tokenizer/kept_memory.h"
#include "millrace/tokenizer/models/word_cache.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {
namespace {

constexpr double kUnknownPenalty = 10.0;
constexpr int32_t kUnreached = -2;

// The best way to the end of a prefix of the word.
struct BestPath {
  double score;
  uint32_t begin;  // of its last piece
  int32_t id;      // of its last piece
};

}  // namespace

UnigramModel::UnigramModel(const JsonNode& node) : cache_owner_(WordCache::new_owner()) {
  node.require_members_among({"type", "unk_id", "vocab", "byte_fallback"});
  const JsonNode vocabulary = node.member("vocab");
  const size_t size = vocabulary.num_elements();
  if (size == 0) vocabulary.fail("no pieces");
  if (size > std::numeric_limits<int32_t>::max()) vocabulary.fail("too many pieces");
  pieces_.reserve(size);
  scores_.reserve(size);
  for (size_t i = 0; i < size; ++i) {
    const nlohmann::json& entry = vocabulary.value()[i];
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      vocabulary.element(i).fail("expected a piece and its score");
    }
    pieces_.push_back(entry[0].get<std::string>());
    scores_.push_back(entry[1].get<double>());
  }
  unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;
  if (const auto unknown = node.find("unk_id")) {
    unknown_id_ = unknown->id();
    if (static_cast<size_t>(unknown_id_) >= size) {
      unknown->fail(fmt::format("is {}, but there are {} pieces", unknown_id_, size));
    }
  }
  std::vector<std::pair<std::string_view, int32_t>> entries;
  entries.reserve(size);
  for (size_t i = 0; i < size; ++i) entries.emplace_back(pieces_[i], static_cast<int32_t>(i));
  trie_ = ByteTrie(std::move(entries));
  if (const auto fallback = node.find("byte_fallback"); fallback && fallback->boolean()) {
    for (int byte = 0; byte < 256; ++byte) {
      byte_ids_.push_back(id_of(fmt::format("<0x{:02X}>", byte)).value_or(kNoPiece));
    }
  }
}

void UnigramModel::tokenize(std::string_view word, std::vector<ModelToken>& tokens) const {
  WordCache& cache = WordCache::of_this_thread();
  if (cache.find(cache_owner_, word, tokens)) return;
  const size_t first = tokens.size();
  find_best_pieces(word, tokens);
  cache.store(cache_owner_, word, tokens, first);
}

void UnigramModel::find_best_pieces(std::string_view word, std::vector<ModelToken>& tokens) const {
  // Work space that each thread keeps: words come by the million.
  static thread_local std::vector<BestPath> paths;
  const KeptMemoryUse use(paths);
  paths.assign(word.size() + 1, BestPath{0, 0, kUnreached});
  const auto offer = [](BestPath& path, double score, size_t begin, int32_t id) {
    if (path.id == kUnreached || score > path.score) path = {score, static_cast<uint32_t>(begin), id};
  };
  for (size_t begin = 0; begin < word.size();) {
    const double score_here = paths[begin].score;
    const size_t next_character = begin + character_size(word[begin]);
    bool has_own_piece = false;
    ByteTrie::Node node = ByteTrie::kRoot;
    for (size_t at = begin; at < word.size(); ++at) {
      node = trie_.step(node, word[at]);
      if (node == ByteTrie::kNowhere) break;
      const int32_t id = trie_.value(node);
      if (id < 0) continue;
      offer(paths[at + 1], score_here + scores_[static_cast<size_t>(id)], begin, id);
      has_own_piece |= at + 1 == next_character;
    }
    if (!has_own_piece) {
      if (unknown_id_ == kNoUnknown) {
        throw ErrorException(ErrorCode::kInvalidArgument,
                             fmt::format("'{}' is not in the vocabulary, which has no unknown token (model.unk_id)",
                                         word.substr(begin, next_character - begin)));
      }
      offer(paths[next_character], score_here + unknown_score_, begin, unknown_id_);
    }
    begin = next_character;
  }

  const size_t first = tokens.size();
  for (size_t end = word.size(); end > 0;) {
    const BestPath& path = paths[end];
    const bool unknown = path.id == unknown_id_;
    if (unknown && tokens.size() > first && tokens.back().id == unknown_id_) {
      tokens.back().begin = path.begin;
    } else {
      tokens.push_back({path.id, path.begin, static_cast<uint32_t>(end)});
    }
    end = path.begin;
  }
  std::reverse(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end());
  for (size_t i = first; i < tokens.size(); ++i) {
    ModelToken& token = tokens[i];
    if (token.id != unknown_id_) continue;
    // Several unknown characters together may be a piece, when scores are odd enough.
    token.id = trie_.find(word.substr(token.begin, token.end - token.begin)).value_or(kNoPiece);
  }
  take_bytes_of_unknowns(word, first, tokens);
}

void UnigramModel::take_bytes_of_unknowns(std::string_view word, size_t first, std::vector<ModelToken>& tokens) const {
  const auto is_unknown = [](const ModelToken& token) { return token.id == kNoPiece; };
  const auto unknown = std::find_if(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end(), is_unknown);
  if (unknown == tokens.end()) return;
  const std::vector<ModelToken> rest(unknown, tokens.end());
  tokens.erase(unknown, tokens.end());
  for (const ModelToken& token : rest) {
    if (!is_unknown(token)) {
      tokens.push_back(token);
      continue;
    }
    const std::string_view bytes = word.substr(token.begin, token.end - token.begin);
    const bool has_bytes = !byte_ids_.empty() && std::none_of(bytes.begin(), bytes.end(), [&](char byte) {
      return byte_ids_[static_cast<uint8_t>(byte)] == kNoPiece;
    });
    if (!has_bytes) {
      tokens.push_back({unknown_id_, token.begin, token.end});
      continue;
    }
    for (const char byte : bytes) tokens.push_back({byte_ids_[static_cast<uint8_t>(byte)], token.begin, token.end});
  }
}

nlohmann::ordered_json UnigramModel::to_json() const {
  nlohmann::ordered_json vocabulary = nlohmann::ordered_json::array();
  for (size_t i = 0; i < pieces_.size(); ++i) {
    vocabulary.push_back(nlohmann::ordered_json::array({pieces_[i], scores_[i]}));
  }
  return {{"type", "Unigram"},
          {"unk_id", unknown_id_ == kNoUnknown ? nlohmann::ordered_json() : nlohmann::ordered_json(unknown_id_)},
          {"vocab", std::move(vocabulary)},
          {"byte_fallback", !byte_ids_.empty()}};
}

}  // namespace millrace
