#include "millrace/tokenizer/byte_characters.h"

#include <string>

#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {
namespace {

constexpr size_t kNumBytes = 256;
constexpr char32_t kFirstOther = 0x100;

constexpr bool stands_for_itself(size_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Tables {
  std::array<ByteCharacter, kNumBytes> characters{};
  std::array<uint8_t, kNumBytes> others{};  // those from kFirstOther on
  size_t num_others = 0;

  Tables() {
    for (size_t byte = 0; byte < kNumBytes; ++byte) {
      auto character = static_cast<char32_t>(byte);
      if (!stands_for_itself(byte)) {
        character = kFirstOther + static_cast<char32_t>(num_others);
        others[num_others++] = static_cast<uint8_t>(byte);
      }
      std::string text;
      append_character(character, text);
      characters[byte].size = static_cast<uint8_t>(text.size());
      for (size_t i = 0; i < text.size(); ++i) characters[byte].bytes[i] = text[i];
    }
  }
};

const Tables& tables() {
  static const Tables made;
  return made;
}

}  // namespace

const std::array<ByteCharacter, 256>& byte_characters() { return tables().characters; }

std::optional<uint8_t> byte_of_character(char32_t character) {
  if (character < kNumBytes) {
    return stands_for_itself(character) ? std::optional(static_cast<uint8_t>(character)) : std::nullopt;
  }
  const size_t other = character - kFirstOther;
  return other < tables().num_others ? std::optional(tables().others[other]) : std::nullopt;
}

}  // namespace millrace
