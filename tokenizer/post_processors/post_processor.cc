#include "tokenizer/post_processors/post_processor.h"

#include <fmt/format.h>

#include "tokenizer/post_processors/template_processing.h"

namespace millrace {
namespace {

class PlainPostProcessor final : public PostProcessor {
 public:
  const std::vector<TemplatePiece>& single() const override { return single_; }
  const std::vector<TemplatePiece>& pair() const override { return pair_; }

 private:
  std::vector<TemplatePiece> single_{{.kind = TemplatePiece::Kind::kFirstText}};
  std::vector<TemplatePiece> pair_{{.kind = TemplatePiece::Kind::kFirstText},
                                   {.kind = TemplatePiece::Kind::kSecondText, .type_id = 1}};
};

}  // namespace

std::unique_ptr<const PostProcessor> read_post_processor(const JsonNode& node) {
  const JsonNode type = node.member("type");
  const std::string name = type.string();
  if (name == "TemplateProcessing") return std::make_unique<TemplateProcessing>(node);
  type.fail(fmt::format("no post-processor '{}'; there is TemplateProcessing", name));
}

std::unique_ptr<const PostProcessor> plain_post_processor() { return std::make_unique<PlainPostProcessor>(); }

}  // namespace millrace
