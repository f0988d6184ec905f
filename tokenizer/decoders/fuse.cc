#include "millrace/tokenizer/decoders/fuse.h"

#include <nlohmann/json.hpp>

namespace millrace {

void FuseDecoder::apply(std::vector<std::string>& pieces) const {
  std::string all;
  for (const std::string& piece : pieces) all += piece;
  pieces.assign(1, all);
}

nlohmann::ordered_json FuseDecoder::to_json() const { return {{"type", "Fuse"}}; }

}  // namespace millrace
