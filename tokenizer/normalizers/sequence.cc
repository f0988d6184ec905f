#include "tokenizer/normalizers/sequence.h"

namespace millrace {

NormalizerSequence::NormalizerSequence(const JsonNode& node) {
  node.require_members_among({"type", "normalizers"});
  const JsonNode list = node.member("normalizers");
  for (size_t i = 0; i < list.num_elements(); ++i) normalizers_.push_back(read_normalizer(list.element(i)));
}

void NormalizerSequence::apply(AlignedText& text, AlignedText& spare) const {
  for (const auto& normalizer : normalizers_) normalizer->apply(text, spare);
}

}  // namespace millrace
