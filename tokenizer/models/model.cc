#include "tokenizer/models/model.h"

#include <fmt/format.h>

#include "tokenizer/models/bpe.h"
#include "tokenizer/models/unigram.h"

namespace millrace {

std::unique_ptr<const TokenModel> read_model(const JsonNode& node) {
  const JsonNode type = node.member("type");
  const std::string name = type.string();
  if (name == "Unigram") return std::make_unique<UnigramModel>(node);
  if (name == "BPE") return std::make_unique<BpeModel>(node);
  type.fail(fmt::format("no model '{}'; there are BPE and Unigram", name));
}

}  // namespace millrace
