#include "millrace/tokenizer/decoders/sequence.h"

#include <utility>

#include <nlohmann/json.hpp>

namespace millrace {

DecoderSequence::DecoderSequence(const JsonNode& node) {
  node.require_members_among({"type", "decoders"});
  const JsonNode list = node.member("decoders");
  for (size_t i = 0; i < list.num_elements(); ++i) decoders_.push_back(read_decoder(list.element(i)));
}

void DecoderSequence::apply(std::vector<std::string>& pieces) const {
  for (const auto& decoder : decoders_) decoder->apply(pieces);
}

nlohmann::ordered_json DecoderSequence::to_json() const {
  auto list = nlohmann::ordered_json::array();
  for (const auto& decoder : decoders_) list.push_back(decoder->to_json());
  return {{"type", "Sequence"}, {"decoders", std::move(list)}};
}

}  // namespace millrace
