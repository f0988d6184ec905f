#include "millrace/tokenizer/decoders/sequence.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/multiplied_text.h"

namespace millrace {
DecoderSequence::DecoderSequence(const JsonNode& node) {
  node.require_members_among({"type", "decoders"});
  const JsonNode list = node.member("decoders");
  for (size_t i = 0; i < list.num_elements(); ++i) decoders_.push_back(read_decoder(list.element(i)));
}

void DecoderSequence::apply(std::vector<std::string>& pieces) const {
  const auto size = [&] {
    size_t bytes = 0;
    for (const std::string& piece : pieces) bytes += piece.size();
    return bytes;
  };
  for (const auto& decoder : decoders_) {
    const size_t size_before = size();
    decoder->apply(pieces);
    require_not_multiplied(size_before, size(), "a sequence of decoders");
  }
}

nlohmann::ordered_json DecoderSequence::to_json() const {
  auto list = nlohmann::ordered_json::array();
  for (const auto& decoder : decoders_) list.push_back(decoder->to_json());
  return {{"type", "Sequence"}, {"decoders", std::move(list)}};
}

}  // namespace millrace
