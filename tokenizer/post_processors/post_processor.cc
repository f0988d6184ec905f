#include "millrace/tokenizer/post_processors/post_processor.h"

#include <fmt/format.h>

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
  type.fail(fmt::format(
      "no post-processor '{}'; there are ByteLevel, RobertaProcessing, Sequence and TemplateProcessing", name));
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
