#include "millrace/tokenizer/post_processors/template_processing.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

std::vector<TemplatePiece> read_template(const JsonNode& list, const JsonNode& special_tokens) {
  std::vector<TemplatePiece> pieces;
  for (size_t i = 0; i < list.num_elements(); ++i) {
    const JsonNode element = list.element(i);
    element.require_members_among({"Sequence", "SpecialToken"});
    if (const auto sequence = element.find("Sequence")) {
      sequence->require_members_among({"id", "type_id"});
      const std::string name = sequence->member("id").string();
      if (name != "A" && name != "B")
        sequence->member("id").fail(fmt::format("expected 'A' or 'B', found '{}'", excerpt(name)));
      pieces.push_back({.kind = name == "A" ? TemplatePiece::Kind::kFirstText : TemplatePiece::Kind::kSecondText,
                        .type_id = sequence->member("type_id").id()});
      continue;
    }
    const JsonNode special = element.member("SpecialToken");
    special.require_members_among({"id", "type_id"});
    const JsonNode token = special_tokens.member(special.member("id").string());
    token.require_members_among({"id", "ids", "tokens"});
    const JsonNode ids = token.member("ids");
    const JsonNode texts = token.member("tokens");
    if (ids.num_elements() != texts.num_elements()) {
      token.fail(fmt::format("{} ids for {} tokens", ids.num_elements(), texts.num_elements()));
    }
    for (size_t k = 0; k < ids.num_elements(); ++k) {
      pieces.push_back({.kind = TemplatePiece::Kind::kSpecialToken,
                        .type_id = special.member("type_id").id(),
                        .id = ids.element(k).id(),
                        .token = texts.element(k).string()});
    }
  }
  return pieces;
}

void require_texts(const JsonNode& list, const std::vector<TemplatePiece>& pieces,
                   std::initializer_list<TemplatePiece::Kind> kinds) {
  for (const TemplatePiece::Kind kind : {TemplatePiece::Kind::kFirstText, TemplatePiece::Kind::kSecondText}) {
    const auto count = std::count_if(pieces.begin(), pieces.end(), [&](const auto& p) { return p.kind == kind; });
    const bool wanted = std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
    if (count != (wanted ? 1 : 0)) {
      list.fail(fmt::format("has text {} {} times, expected {}", kind == TemplatePiece::Kind::kFirstText ? 'A' : 'B',
                            count, wanted ? "it once" : "none"));
    }
  }
}

}  // namespace

TemplateProcessing::TemplateProcessing(const JsonNode& node) : json_(node.value().dump()) {
  node.require_members_among({"type", "single", "pair", "special_tokens"});
  const JsonNode special_tokens = node.member("special_tokens");
  single_ = read_template(node.member("single"), special_tokens);
  require_texts(node.member("single"), single_, {TemplatePiece::Kind::kFirstText});
  pair_ = read_template(node.member("pair"), special_tokens);
  require_texts(node.member("pair"), pair_, {TemplatePiece::Kind::kFirstText, TemplatePiece::Kind::kSecondText});
}

nlohmann::ordered_json TemplateProcessing::to_json() const {
  const auto json = nlohmann::ordered_json::parse(json_);
  return {{"type", "TemplateProcessing"},
          {"single", json["single"]},
          {"pair", json["pair"]},
          {"special_tokens", json["special_tokens"]}};
}

}  // namespace millrace
