#include "millrace/tokenizer/normalizers/nmt.h"

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/normalizers/character_edit.h"

namespace millrace {
namespace {

CharacterEdit edit_of(char32_t character) {
  switch (character) {
    case 0x00: return CharacterEdit::kKeep;
    case '\t':
    case '\n':
    case '\f':
    case '\r':
    case 0x1680:                                    // OGHAM SPACE MARK
    case 0x200b:                                    // ZERO WIDTH SPACE
    case 0x200c:                                    // ZERO WIDTH NON-JOINER
    case 0x200d:                                    // ZERO WIDTH JOINER
    case 0x200e:                                    // LEFT-TO-RIGHT MARK
    case 0x200f:                                    // RIGHT-TO-LEFT MARK
    case 0x2028:                                    // LINE SEPARATOR
    case 0x2029:                                    // PARAGRAPH SEPARATOR
    case 0x2581:                                    // LOWER ONE EIGHTH BLOCK, the mark of a space
    case 0xfeff:                                    // ZERO WIDTH NO-BREAK SPACE
    case 0xfffd: return CharacterEdit::kMakeSpace;  // REPLACEMENT CHARACTER
    case 0x7f:
    case 0x8f:
    case 0x9f: return CharacterEdit::kDrop;
    default: return character < ' ' ? CharacterEdit::kDrop : CharacterEdit::kKeep;
  }
}

}  // namespace

void NmtNormalizer::apply(AlignedText& text, AlignedText& spare) const { edit_characters(edit_of, text, spare); }

nlohmann::ordered_json NmtNormalizer::to_json() const { return {{"type", "Nmt"}}; }

}  // namespace millrace
