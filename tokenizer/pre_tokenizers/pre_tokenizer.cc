#include "tokenizer/pre_tokenizers/pre_tokenizer.h"

#include <fmt/format.h>

#include "tokenizer/pre_tokenizers/metaspace.h"

namespace millrace {

std::unique_ptr<const PreTokenizer> read_pre_tokenizer(const JsonNode& node) {
  const JsonNode type = node.member("type");
  const std::string name = type.string();
  if (name == "Metaspace") return std::make_unique<MetaspacePreTokenizer>(node);
  type.fail(fmt::format("no pre-tokenizer '{}'; there is Metaspace", name));
}

}  // namespace millrace
