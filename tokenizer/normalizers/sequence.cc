#include "millrace/tokenizer/normalizers/sequence.h"

#include <nlohmann/json.hpp>

namespace millrace {

NormalizerSequence::NormalizerSequence(const JsonNode& node) {
  node.require_members_among({"type", "normalizers"});
  const JsonNode list = node.member("normalizers");
  for (size_t i = 0; i < list.num_elements(); ++i) normalizers_.push_back(read_normalizer(list.element(i)));
}

void NormalizerSequence::apply(AlignedText& text, AlignedText& spare) const {
  for (const auto& normalizer : normalizers_) normalizer->apply(text, spare);
}

nlohmann::ordered_json NormalizerSequence::to_json() const {
  auto list = nlohmann::ordered_json::array();
  for (const auto& normalizer : normalizers_) list.push_back(normalizer->to_json());
  return {{"type", "Sequence"}, {"normalizers", std::move(list)}};
}

}  // namespace millrace
