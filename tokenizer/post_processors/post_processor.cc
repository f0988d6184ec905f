#include "millrace/tokenizer/post_processors/post_processor.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/utf8.h"
#include "millrace/tokenizer/post_processors/bert_processing.h"
#include "millrace/tokenizer/post_processors/byte_level.h"
#include "millrace/tokenizer/post_processors/roberta_processing.h"
#include "millrace/tokenizer/post_processors/sequence.h"
#include "millrace/tokenizer/post_processors/template_processing.h"

namespace millrace {

std::unique_ptr<const PostProcessor> read_post_processor(const JsonNode& node) {
  const JsonNode type = node.member("type");
  const std::string name = type.string();
  if (name == "TemplateProcessing") return std::make_unique<TemplateProcessing>(node);
  if (name == "RobertaProcessing") return std::make_unique<RobertaProcessing>(node);
  if (name == "ByteLevel") return std::make_unique<ByteLevelPostProcessor>(node);
  if (name == "Sequence") return std::make_unique<PostProcessorSequence>(node);
  if (name == "BertProcessing") return std::make_unique<BertProcessing>(node);
  type.fail(fmt::format(
      "no post-processor '{}'; there are BertProcessing, ByteLevel, RobertaProcessing, Sequence and TemplateProcessing",
      excerpt(name)));
}

TemplatePiece read_special_token(const JsonNode& node) {
  if (node.num_elements() != 2) node.fail("expected a token and its id");
  return {.kind = TemplatePiece::Kind::kSpecialToken, .id = node.element(1).id(), .token = node.element(0).string()};
}

nlohmann::ordered_json special_token_json(const TemplatePiece& piece) {
  return nlohmann::ordered_json::array({piece.token, piece.id});
}

const std::vector<TemplatePiece>& plain_single() {
  static const std::vector<TemplatePiece> pieces{{.kind = TemplatePiece::Kind::kFirstText}};
  return pieces;
}

const std::vector<TemplatePiece>& plain_pair() {
  static const std::vector<TemplatePiece> pieces{{.kind = TemplatePiece::Kind::kFirstText},
                                                 {.kind = TemplatePiece::Kind::kSecondText, .type_id = 1}};
  return pieces;
}

}  // namespace millrace
