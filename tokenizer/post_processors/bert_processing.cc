#include "millrace/tokenizer/post_processors/bert_processing.h"

#include <nlohmann/json.hpp>

namespace millrace {

BertProcessing::BertProcessing(const JsonNode& node) {
  node.require_members_among({"type", "sep", "cls"});
  const TemplatePiece sep = read_special_token(node.member("sep"));
  const TemplatePiece cls = read_special_token(node.member("cls"));
  const TemplatePiece first{.kind = TemplatePiece::Kind::kFirstText};
  const TemplatePiece second{.kind = TemplatePiece::Kind::kSecondText, .type_id = 1};
  TemplatePiece last = sep;
  last.type_id = 1;
  single_ = {cls, first, sep};
  pair_ = {cls, first, sep, second, last};
}

nlohmann::ordered_json BertProcessing::to_json() const {
  return {{"type", "BertProcessing"},
          {"sep", special_token_json(single_.back())},
          {"cls", special_token_json(single_.front())}};
}

}  // namespace millrace
