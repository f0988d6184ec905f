#include "millrace/tokenizer/decoders/bpe_decoder.h"

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/decoders/text_replacement.h"

namespace millrace {

BpeDecoder::BpeDecoder(const JsonNode& node) : suffix_(node.member("suffix").string()) {
  node.require_members_among({"type", "suffix"});
}

void BpeDecoder::apply(std::vector<std::string>& pieces) const {
  for (size_t i = 0; i < pieces.size(); ++i) {
    pieces[i] = replace_all(pieces[i], suffix_, i + 1 < pieces.size() ? " " : "");
  }
}

nlohmann::ordered_json BpeDecoder::to_json() const { return {{"type", "BPEDecoder"}, {"suffix", suffix_}}; }

}  // namespace millrace
