#include "millrace/tokenizer/normalizers/bert_normalizer.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/character_classes.h"
#include "millrace/tokenizer/normalizers/character_edit.h"
#include "millrace/tokenizer/older_unicode.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {
namespace {

constexpr char32_t kReplacementCharacter = 0xfffd;

CharacterEdit cleaning_of(char32_t character) {
  if (character == ' ') return CharacterEdit::kKeep;
  if (character == '\t' || character == '\n' || character == '\r') return CharacterEdit::kMakeSpace;
  if (character == kReplacementCharacter || is_control_of_unicode_8(character)) return CharacterEdit::kDrop;
  return is_white_space(character) ? CharacterEdit::kMakeSpace : CharacterEdit::kKeep;
}

CharacterEdit stripping_of(char32_t character) {
  return is_nonspacing_mark_of_unicode_8(character) ? CharacterEdit::kDrop : CharacterEdit::kKeep;
}

// Ideographs that Chinese is written with, as BERT counts them: blocks, some of them not whole.
bool is_chinese(char32_t character) {
  return (character >= 0x4e00 && character <= 0x9fff) || (character >= 0x3400 && character <= 0x4dbf) ||
         (character >= 0xf900 && character <= 0xfaff) || (character >= 0x20000 && character <= 0x2a6df) ||
         (character >= 0x2a700 && character <= 0x2b81f) || (character >= 0x2b920 && character <= 0x2ceaf) ||
         (character >= 0x2f800 && character <= 0x2fa1f);
}

void set_chinese_apart(AlignedText& text, AlignedText& spare) {
  const std::string_view before = text.text();
  bool changed = false;
  size_t copied = 0;
  for (size_t at = 0; at < before.size();) {
    const Utf8Character character = character_at(before, at);
    const size_t end = at + character.size;
    if (is_chinese(character.value)) {
      if (!changed) spare.clear(text.tracking());
      changed = true;
      spare.append(text, copied, at);
      spare.append_new(" ", text, at);
      spare.append(text, at, end);
      spare.append_new(" ", text, at);
      copied = end;
    }
    at = end;
  }
  if (!changed) return;
  spare.append(text, copied, before.size());
  std::swap(text, spare);
}

}  // namespace

BertNormalizer::BertNormalizer(const JsonNode& node)
    : clean_text_(node.member("clean_text").boolean()),
      handle_chinese_chars_(node.member("handle_chinese_chars").boolean()),
      lowercase_(node.member("lowercase").boolean()) {
  node.require_members_among({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  if (const auto strip = node.find("strip_accents")) strip_accents_ = strip->boolean();
}

void BertNormalizer::apply(AlignedText& text, AlignedText& spare) const {
  if (clean_text_) edit_characters(cleaning_of, text, spare);
  if (!is_ascii(text.text())) {
    if (handle_chinese_chars_) set_chinese_apart(text, spare);
    if (strip_accents_.value_or(lowercase_)) {
      decomposition_.apply(text, spare);
      edit_characters(stripping_of, text, spare);
    }
  }
  if (lowercase_) lowercase_normalizer_.apply(text, spare);
}

nlohmann::ordered_json BertNormalizer::to_json() const {
  return {{"type", "BertNormalizer"},
          {"clean_text", clean_text_},
          {"handle_chinese_chars", handle_chinese_chars_},
          {"strip_accents", strip_accents_ ? nlohmann::ordered_json(*strip_accents_) : nlohmann::ordered_json()},
          {"lowercase", lowercase_}};
}

}  // namespace millrace
