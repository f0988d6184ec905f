#include "tokenizer/models/unigram.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "formats/error.h"

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

size_t character_size(char first) {
  const auto byte = static_cast<uint8_t>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

}  // namespace

UnigramModel::UnigramModel(const JsonNode& node) {
  node.require_members_among({"type", "unk_id", "vocab", "byte_fallback"});
  if (const auto fallback = node.find("byte_fallback"); fallback && fallback->boolean()) {
    fallback->fail("pieces for single bytes are not supported");
  }
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
}

void UnigramModel::tokenize(std::string_view word, std::vector<ModelToken>& tokens) const {
  // Work space that each thread keeps: words come by the million.
  static thread_local std::vector<BestPath> paths;
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
    token.id = trie_.find(word.substr(token.begin, token.end - token.begin)).value_or(unknown_id_);
  }
}

}  // namespace millrace
