#include "millrace/tokenizer/pre_tokenizers/sequence.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace millrace {

PreTokenizerSequence::PreTokenizerSequence(const JsonNode& node) {
  node.require_members_among({"type", "pretokenizers"});
  const JsonNode list = node.member("pretokenizers");
  for (size_t i = 0; i < list.num_elements(); ++i) pre_tokenizers_.push_back(read_pre_tokenizer(list.element(i)));
}

void PreTokenizerSequence::apply(WordedText& text, WordedText& spare) const {
  for (const auto& pre_tokenizer : pre_tokenizers_) pre_tokenizer->apply(text, spare);
}

nlohmann::ordered_json PreTokenizerSequence::to_json() const {
  auto list = nlohmann::ordered_json::array();
  for (const auto& pre_tokenizer : pre_tokenizers_) list.push_back(pre_tokenizer->to_json());
  return {{"type", "Sequence"}, {"pretokenizers", std::move(list)}};
}

bool PreTokenizerSequence::needs_tracking() const {
  return std::any_of(pre_tokenizers_.begin(), pre_tokenizers_.end(),
                     [](const auto& pre_tokenizer) { return pre_tokenizer->needs_tracking(); });
}

}  // namespace millrace
