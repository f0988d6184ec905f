#include "millrace/tokenizer/normalizers/normalizer.h"

#include <fmt/format.h>

#include "millrace/formats/utf8.h"
#include "millrace/tokenizer/normalizers/bert_normalizer.h"
#include "millrace/tokenizer/normalizers/byte_level.h"
#include "millrace/tokenizer/normalizers/lowercase.h"
#include "millrace/tokenizer/normalizers/nmt.h"
#include "millrace/tokenizer/normalizers/precompiled.h"
#include "millrace/tokenizer/normalizers/prepend.h"
#include "millrace/tokenizer/normalizers/replace.h"
#include "millrace/tokenizer/normalizers/sequence.h"
#include "millrace/tokenizer/normalizers/strip.h"
#include "millrace/tokenizer/normalizers/strip_accents.h"
#include "millrace/tokenizer/normalizers/unicode_form.h"

namespace millrace {

std::string Normalizer::apply_to(std::string_view text) const {
  AlignedText changed;
  AlignedText spare;
  changed.append_original(text, 0);
  apply(changed, spare);
  return std::string(changed.text());
}

std::unique_ptr<const Normalizer> read_normalizer(const JsonNode& node) {
  const JsonNode type = node.member("type");
  const std::string name = type.string();
  if (name == "Replace") return std::make_unique<ReplaceNormalizer>(node);
  if (name == "Sequence") return std::make_unique<NormalizerSequence>(node);
  if (name == "NFC" || name == "NFD" || name == "NFKC" || name == "NFKD") {
    return std::make_unique<UnicodeFormNormalizer>(node);
  }
  if (name == "Lowercase") return std::make_unique<LowercaseNormalizer>(node);
  if (name == "Strip") return std::make_unique<StripNormalizer>(node);
  if (name == "Precompiled") return std::make_unique<PrecompiledNormalizer>(node);
  if (name == "StripAccents") return std::make_unique<StripAccentsNormalizer>(node);
  if (name == "BertNormalizer") return std::make_unique<BertNormalizer>(node);
  if (name == "Nmt") return std::make_unique<NmtNormalizer>(node);
  if (name == "Prepend") return std::make_unique<PrependNormalizer>(node);
  if (name == "ByteLevel") return std::make_unique<ByteLevelNormalizer>(node);
  type.fail(
      fmt::format("no normalizer '{}'; there are BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, "
                  "Precompiled, Prepend, Replace, Sequence, Strip and StripAccents",
                  excerpt(name)));
}

}  // namespace millrace
