#include "millrace/tokenizer/normalizers/unicode_form.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include "millrace/formats/error.h"
#include "millrace/tokenizer/kept_memory.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {
namespace {

const icu::Normalizer2& form(bool compatible, bool composed) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* instance =
      compatible ? composed ? icu::Normalizer2::getNFKCInstance(status) : icu::Normalizer2::getNFKDInstance(status)
      : composed ? icu::Normalizer2::getNFCInstance(status)
                 : icu::Normalizer2::getNFDInstance(status);
  if (U_FAILURE(status)) {
    throw ErrorException(ErrorCode::kInvalidArgument, std::string("no Unicode data: ") + u_errorName(status));
  }
  return *instance;
}

uint8_t combining_class(char32_t character) { return u_getCombiningClass(static_cast<UChar32>(character)); }

// Marks after a base in the order of their classes; equal ones keep theirs.
void order_marks(std::vector<CharacterChange>& changes) {
  const auto is_base = [](const CharacterChange& change) { return combining_class(change.character) == 0; };
  for (auto begin = changes.begin(); begin != changes.end();) {
    begin = std::find_if_not(begin, changes.end(), is_base);
    const auto end = std::find_if(begin, changes.end(), is_base);
    std::stable_sort(begin, end, [](const CharacterChange& a, const CharacterChange& b) {
      return combining_class(a.character) < combining_class(b.character);
    });
    begin = end;
  }
}

// The canonical composition algorithm (Unicode 3.11, D117). A character that goes into another leaves its place to it.
void compose(std::vector<CharacterChange>& changes, const icu::Normalizer2& canonical) {
  constexpr size_t kNoBase = SIZE_MAX;
  size_t base = kNoBase;
  int last_class = -1;  // of the character before, after the base; -1: none is in between
  size_t size = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    const CharacterChange change = changes[i];
    const int mark_class = combining_class(change.character);
    if (base != kNoBase && last_class < mark_class) {
      const UChar32 both =
          canonical.composePair(static_cast<UChar32>(changes[base].character), static_cast<UChar32>(change.character));
      if (both >= 0) {
        changes[base].character = static_cast<char32_t>(both);
        changes[base].change += change.change - 1;
        continue;
      }
    }
    if (mark_class == 0) {
      base = size;
      last_class = -1;
    } else {
      last_class = mark_class;
    }
    changes[size++] = change;
  }
  changes.resize(size);
}

}  // namespace

UnicodeFormNormalizer::UnicodeFormNormalizer(const JsonNode& node) {
  node.require_members_among({"type"});
  const std::string name = node.member("type").string();
  compatible_ = name[2] == 'K';
  composed_ = name.back() == 'C';
  (void)form(compatible_, composed_);
}

bool UnicodeFormNormalizer::is_normalized(std::string_view text) const {
  if (is_ascii(text)) return true;
  UErrorCode status = U_ZERO_ERROR;
  return form(compatible_, composed_)
                 .isNormalizedUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), status) != 0 &&
         U_SUCCESS(status);
}

void UnicodeFormNormalizer::decompose(std::string_view text, std::vector<CharacterChange>& changes) const {
  const icu::Normalizer2& decomposition = form(compatible_, /*composed=*/false);
  icu::UnicodeString parts;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = character_at(text, at);
    at += character.size;
    if (character.value < 0x80 || !decomposition.getDecomposition(static_cast<UChar32>(character.value), parts)) {
      changes.push_back({character.value, 0});
      continue;
    }
    for (int32_t i = 0; i < parts.length(); i = parts.moveIndex32(i, 1)) {
      changes.push_back({static_cast<char32_t>(parts.char32At(i)), i == 0 ? 0 : 1});
    }
  }
}

void UnicodeFormNormalizer::apply(AlignedText& text, AlignedText& spare) const {
  if (is_normalized(text.text())) return;
  // Work space that each thread keeps.
  static thread_local std::vector<CharacterChange> changes;
  const KeptMemoryUse use(changes);
  changes.clear();
  decompose(text.text(), changes);
  order_marks(changes);
  if (composed_) compose(changes, form(/*compatible=*/false, /*composed=*/true));
  spare.clear(text.tracking());
  spare.append_changed(changes, text);
  std::swap(text, spare);
}

nlohmann::ordered_json UnicodeFormNormalizer::to_json() const {
  return {{"type", std::string(compatible_ ? "NFK" : "NF") + (composed_ ? 'C' : 'D')}};
}

}  // namespace millrace
