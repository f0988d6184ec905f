#include "millrace/tokenizer/normalizers/lowercase.h"

#include <utility>

#include <nlohmann/json.hpp>
#include <unicode/uchar.h>

#include "millrace/tokenizer/kept_memory.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {
namespace {

// The only character that becomes two wherever it stands (SpecialCasing.txt): I with a dot above.
constexpr char32_t kCapitalIWithDot = 0x130;
constexpr char32_t kDotAbove = 0x307;

}  // namespace

void LowercaseNormalizer::apply(AlignedText& text, AlignedText& spare) const {
  const std::string_view before = text.text();
  if (is_ascii(before)) {
    text.lower_ascii();
    return;
  }
  // Work space that each thread keeps.
  static thread_local std::vector<CharacterChange> changes;
  const KeptMemoryUse use(changes);
  changes.clear();
  for (size_t at = 0; at < before.size();) {
    const Utf8Character character = character_at(before, at);
    if (character.value == kCapitalIWithDot) {
      changes.push_back({U'i', 0});
      changes.push_back({kDotAbove, 1});
    } else {
      changes.push_back({static_cast<char32_t>(u_tolower(static_cast<UChar32>(character.value))), 0});
    }
    at += character.size;
  }
  spare.clear(text.tracking());
  spare.append_changed(changes, text);
  std::swap(text, spare);
}

nlohmann::ordered_json LowercaseNormalizer::to_json() const { return {{"type", "Lowercase"}}; }

}  // namespace millrace
