#include "millrace/tokenizer/decoders/word_piece.h"

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/decoders/text_replacement.h"

namespace millrace {

WordPieceDecoder::WordPieceDecoder(const JsonNode& node)
    : prefix_(node.member("prefix").string()), cleanup_(node.member("cleanup").boolean()) {
  node.require_members_among({"type", "prefix", "cleanup"});
}

void WordPieceDecoder::apply(std::vector<std::string>& pieces) const {
  bool is_first = true;
  for (std::string& piece : pieces) {
    if (!is_first) {
      if (piece.starts_with(prefix_)) {
        piece.erase(0, prefix_.size());
      } else {
        piece.insert(0, 1, ' ');
      }
    }
    if (cleanup_) piece = without_spaces_of_tokens(piece);
    is_first = false;
  }
}

nlohmann::ordered_json WordPieceDecoder::to_json() const {
  return {{"type", "WordPiece"}, {"prefix", prefix_}, {"cleanup", cleanup_}};
}

}  // namespace millrace
