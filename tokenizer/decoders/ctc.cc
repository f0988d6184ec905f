#include "millrace/tokenizer/decoders/ctc.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/decoders/text_replacement.h"

namespace millrace {

CtcDecoder::CtcDecoder(const JsonNode& node)
    : pad_token_(node.member("pad_token").string()),
      word_delimiter_token_(node.member("word_delimiter_token").string()),
      cleanup_(node.member("cleanup").boolean()) {
  node.require_members_among({"type", "pad_token", "word_delimiter_token", "cleanup"});
}

void CtcDecoder::apply(std::vector<std::string>& pieces) const {
  pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
  std::vector<std::string> decoded;
  for (const std::string& piece : pieces) {
    std::string text = replace_all(piece, pad_token_, "");
    if (cleanup_) text = replace_all(without_spaces_of_tokens(text), word_delimiter_token_, " ");
    if (!text.empty()) decoded.push_back(std::move(text));
  }
  pieces = std::move(decoded);
}

nlohmann::ordered_json CtcDecoder::to_json() const {
  return {{"type", "CTC"},
          {"pad_token", pad_token_},
          {"word_delimiter_token", word_delimiter_token_},
          {"cleanup", cleanup_}};
}

}  // namespace millrace
