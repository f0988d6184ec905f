#include "millrace/tokenizer/post_processors/sequence.h"

#include <nlohmann/json.hpp>

namespace millrace {

PostProcessorSequence::PostProcessorSequence(const JsonNode& node) {
  node.require_members_among({"type", "processors"});
  const JsonNode list = node.member("processors");
  for (size_t i = 0; i < list.num_elements(); ++i) {
    processors_.push_back(read_post_processor(list.element(i)));
    if (processors_.back()->single() == nullptr) continue;
    if (places_texts_ != nullptr)
      list.element(i).fail("a second post-processor that places the texts is not supported");
    places_texts_ = processors_.back().get();
  }
}

const std::vector<TemplatePiece>* PostProcessorSequence::single() const {
  return places_texts_ == nullptr ? nullptr : places_texts_->single();
}

const std::vector<TemplatePiece>* PostProcessorSequence::pair() const {
  return places_texts_ == nullptr ? nullptr : places_texts_->pair();
}

JoinedSpecialTokens PostProcessorSequence::joins_special_tokens() const {
  return places_texts_ == nullptr ? JoinedSpecialTokens{} : places_texts_->joins_special_tokens();
}

std::vector<OffsetTrimming> PostProcessorSequence::trimmings() const {
  std::vector<OffsetTrimming> all;
  JoinedSpecialTokens joined;
  const auto join = [](JoinedSpecialTokens& tokens, const JoinedSpecialTokens& more) {
    tokens.before_first_text |= more.before_first_text;
    tokens.before_second_text |= more.before_second_text;
  };
  for (const auto& processor : processors_) {
    for (OffsetTrimming trimming : processor->trimmings()) {
      join(trimming.joined, joined);
      all.push_back(trimming);
    }
    join(joined, processor->joins_special_tokens());
  }
  return all;
}

nlohmann::ordered_json PostProcessorSequence::to_json() const {
  auto list = nlohmann::ordered_json::array();
  for (const auto& processor : processors_) list.push_back(processor->to_json());
  return {{"type", "Sequence"}, {"processors", std::move(list)}};
}

}  // namespace millrace
