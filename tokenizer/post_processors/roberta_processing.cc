#include "millrace/tokenizer/post_processors/roberta_processing.h"

#include <nlohmann/json.hpp>

namespace millrace {
namespace {

TemplatePiece read_token(const JsonNode& node) {
  if (node.num_elements() != 2) node.fail("expected a token and its id");
  return {.kind = TemplatePiece::Kind::kSpecialToken, .id = node.element(1).id(), .token = node.element(0).string()};
}

}  // namespace

RobertaProcessing::RobertaProcessing(const JsonNode& node)
    : trim_offsets_(node.member("trim_offsets").boolean()),
      add_prefix_space_(node.member("add_prefix_space").boolean()) {
  node.require_members_among({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
  const TemplatePiece sep = read_token(node.member("sep"));
  const TemplatePiece cls = read_token(node.member("cls"));
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
  const auto token = [](const TemplatePiece& piece) { return nlohmann::ordered_json::array({piece.token, piece.id}); };
  return {{"type", "RobertaProcessing"},
          {"sep", token(single_.back())},
          {"cls", token(single_.front())},
          {"trim_offsets", trim_offsets_},
          {"add_prefix_space", add_prefix_space_}};
}

}  // namespace millrace
