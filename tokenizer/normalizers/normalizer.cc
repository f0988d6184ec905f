#include "millrace/tokenizer/normalizers/normalizer.h"

#include <fmt/format.h>

#include "millrace/tokenizer/normalizers/lowercase.h"
#include "millrace/tokenizer/normalizers/precompiled.h"
#include "millrace/tokenizer/normalizers/replace.h"
#include "millrace/tokenizer/normalizers/sequence.h"
#include "millrace/tokenizer/normalizers/strip.h"
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
  type.fail(fmt::format(
      "no normalizer '{}'; there are Lowercase, NFC, NFD, NFKC, NFKD, Precompiled, Replace, Sequence and Strip", name));
}

}  // namespace millrace
