#include "millrace/tokenizer/decoders/replace.h"

#include <utility>

#include <nlohmann/json.hpp>

namespace millrace {

ReplaceDecoder::ReplaceDecoder(const JsonNode& node)
    : pattern_(node.member("pattern")), content_(node.member("content").string()) {
  node.require_members_among({"type", "pattern", "content"});
}

void ReplaceDecoder::apply(std::vector<std::string>& pieces) const {
  for (std::string& piece : pieces) {
    if (piece.empty()) continue;
    std::string text;
    size_t copied = 0;
    TextPattern::Cursor cursor(pattern_, piece);
    while (const auto match = cursor.next()) {
      text.append(piece, copied, match->begin - copied);
      text.append(content_);
      copied = match->end;
    }
    text.append(piece, copied);
    piece = std::move(text);
  }
}

nlohmann::ordered_json ReplaceDecoder::to_json() const {
  return {{"type", "Replace"}, {"pattern", pattern_.to_json()}, {"content", content_}};
}

}  // namespace millrace
