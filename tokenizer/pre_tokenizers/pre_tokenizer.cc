#include "millrace/tokenizer/pre_tokenizers/pre_tokenizer.h"

#include <fmt/format.h>

#include "millrace/tokenizer/pre_tokenizers/byte_level.h"
#include "millrace/tokenizer/pre_tokenizers/metaspace.h"
#include "millrace/tokenizer/pre_tokenizers/sequence.h"
#include "millrace/tokenizer/pre_tokenizers/whitespace.h"
#include "millrace/tokenizer/pre_tokenizers/whitespace_split.h"

namespace millrace {

std::unique_ptr<const PreTokenizer> read_pre_tokenizer(const JsonNode& node) {
  const JsonNode type = node.member("type");
  const std::string name = type.string();
  if (name == "Metaspace") return std::make_unique<MetaspacePreTokenizer>(node);
  if (name == "ByteLevel") return std::make_unique<ByteLevelPreTokenizer>(node);
  if (name == "Whitespace") return std::make_unique<WhitespacePreTokenizer>(node);
  if (name == "WhitespaceSplit") return std::make_unique<WhitespaceSplitPreTokenizer>(node);
  if (name == "Sequence") return std::make_unique<PreTokenizerSequence>(node);
  type.fail(fmt::format(
      "no pre-tokenizer '{}'; there are ByteLevel, Metaspace, Sequence, Whitespace and WhitespaceSplit", name));
}

}  // namespace millrace
