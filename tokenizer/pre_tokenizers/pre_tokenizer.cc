#include "millrace/tokenizer/pre_tokenizers/pre_tokenizer.h"

#include <fmt/format.h>

#include "millrace/formats/utf8.h"
#include "millrace/tokenizer/pre_tokenizers/bert_pre_tokenizer.h"
#include "millrace/tokenizer/pre_tokenizers/byte_level.h"
#include "millrace/tokenizer/pre_tokenizers/char_delimiter_split.h"
#include "millrace/tokenizer/pre_tokenizers/digits.h"
#include "millrace/tokenizer/pre_tokenizers/fixed_length.h"
#include "millrace/tokenizer/pre_tokenizers/metaspace.h"
#include "millrace/tokenizer/pre_tokenizers/punctuation.h"
#include "millrace/tokenizer/pre_tokenizers/sequence.h"
#include "millrace/tokenizer/pre_tokenizers/split.h"
#include "millrace/tokenizer/pre_tokenizers/unicode_scripts.h"
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
  if (name == "Split") return std::make_unique<SplitPreTokenizer>(node);
  if (name == "Digits") return std::make_unique<DigitsPreTokenizer>(node);
  if (name == "Punctuation") return std::make_unique<PunctuationPreTokenizer>(node);
  if (name == "BertPreTokenizer") return std::make_unique<BertPreTokenizer>(node);
  if (name == "UnicodeScripts") return std::make_unique<UnicodeScriptsPreTokenizer>(node);
  if (name == "CharDelimiterSplit") return std::make_unique<CharDelimiterSplitPreTokenizer>(node);
  if (name == "FixedLength") return std::make_unique<FixedLengthPreTokenizer>(node);
  type.fail(
      fmt::format("no pre-tokenizer '{}'; there are BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, "
                  "FixedLength, Metaspace, Punctuation, Sequence, Split, UnicodeScripts, Whitespace and "
                  "WhitespaceSplit",
                  excerpt(name)));
}

}  // namespace millrace
