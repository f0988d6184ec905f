#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace millrace {

/// The character that stands for a byte in the vocabularies of byte-level models, as UTF-8.
struct ByteCharacter {
  static constexpr uint32_t kMaxSize = 2;
  std::array<char, kMaxSize> bytes{};
  uint8_t size = 0;
};

/// For each byte a character that can be seen: printable Latin-1 stands for itself, the others follow from U+0100 on
/// (GPT-2; a space is U+0120).
const std::array<ByteCharacter, 256>& byte_characters();

/// The byte that `character` stands for, if any.
std::optional<uint8_t> byte_of_character(char32_t character);

}  // namespace millrace
