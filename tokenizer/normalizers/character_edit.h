#pragma once

#include "millrace/tokenizer/aligned_text.h"

namespace millrace {

/// What becomes of a character.
enum class CharacterEdit {
  kKeep,
  kDrop,
  kMakeSpace,  ///< a space stands in its place
};

/// Changes each character of `text` as `edit_of` says. `spare` is work space with any contents.
void edit_characters(CharacterEdit (*edit_of)(char32_t), AlignedText& text, AlignedText& spare);

}  // namespace millrace
