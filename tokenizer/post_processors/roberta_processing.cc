#include "millrace/tokenizer/post_processors/roberta_processing.h"

#include <nlohmann/json.hpp>

namespace millrace {
RobertaProcessing::RobertaProcessing(const JsonNode& node)
    : trim_offsets_(node.member("trim_offsets").boolean()),
      add_prefix_space_(node.member("add_prefix_space").boolean()) {
  node.require_members_among({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
  const TemplatePiece sep = read_special_token(node.member("sep"));
  const TemplatePiece cls = read_special_token(node.member("cls"));
  const TemplatePiece first{.kind = TemplatePiece::Kind::kFirstText};
  const TemplatePiece second{.kind = TemplatePiece::Kind::kSecondText};
  single_ = {cls, first, sep};
  pair_ = {cls, first, sep, sep, second, sep};
}

std::vector<OffsetTrimming> RobertaProcessing::trimmings() const {
  if (!trim_offsets_) return {};
  return {{.add_prefix_space = add_prefix_space_}};
}

nlohmann::ordered_json RobertaProcessing::to_json() const {
  return {{"type", "RobertaProcessing"},
          {"sep", special_token_json(single_.back())},
          {"cls", special_token_json(single_.front())},
          {"trim_offsets", trim_offsets_},
          {"add_prefix_space", add_prefix_space_}};
}

}  // namespace millrace
