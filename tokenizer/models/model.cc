#include "tokenizer/models/model.h"

#include <fmt/format.h>

#include "tokenizer/models/unigram.h"

namespace millrace {

std::unique_ptr<const TokenModel> read_model(const JsonNode& node) {
  const JsonNode type = node.member("type");
  const std::string name = type.string();
  if (name == "Unigram") return std::make_unique<UnigramModel>(node);
  type.fail(fmt::format("no model '{}'; there is Unigram", name));
}

}  // namespace millrace
