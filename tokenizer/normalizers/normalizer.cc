#include "tokenizer/normalizers/normalizer.h"

#include <fmt/format.h>

#include "tokenizer/normalizers/replace.h"
#include "tokenizer/normalizers/sequence.h"

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
  type.fail(fmt::format("no normalizer '{}'; there are Replace and Sequence", name));
}

}  // namespace millrace
