#include "millrace/tokenizer/decoders/byte_level.h"

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/byte_characters.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {
namespace {

void append_bytes(const std::string& piece, std::string& bytes) {
  const size_t size_before = bytes.size();
  for (size_t at = 0; at < piece.size();) {
    const Utf8Character character = character_at(piece, at);
    const std::optional<uint8_t> byte = byte_of_character(character.value);
    if (!byte) {
      bytes.resize(size_before);
      bytes += piece;
      return;
    }
    bytes.push_back(static_cast<char>(*byte));
    at += character.size;
  }
}

}  // namespace

void ByteLevelDecoder::apply(std::vector<std::string>& pieces) const {
  std::string bytes;
  for (const std::string& piece : pieces) append_bytes(piece, bytes);
  pieces.assign(1, replace_invalid_utf8(bytes));
}

nlohmann::ordered_json ByteLevelDecoder::to_json() const { return options_.to_json(); }

}  // namespace millrace
