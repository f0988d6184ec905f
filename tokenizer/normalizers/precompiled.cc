#include "millrace/tokenizer/normalizers/precompiled.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "millrace/formats/base64.h"
#include "millrace/tokenizer/graphemes.h"
#include "millrace/tokenizer/kept_memory.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {
namespace {

constexpr size_t kTooLargeForTheMap = 6;

CharacterMap read_map(const JsonNode& node) {
  const std::optional<std::string> bytes = decode_base64(node.string());
  if (!bytes) node.fail("is not base64");
  std::optional<CharacterMap> map = CharacterMap::parse(*bytes);
  if (!map) node.fail("is not the table of a sentencepiece normalizer");
  return *std::move(map);
}

// `replacement` in the place of `piece`: the last characters are new, or the last one stands for what is left.
void replace(std::string_view piece, std::string_view replacement, std::vector<CharacterChange>& changes) {
  const auto before = static_cast<int32_t>(num_characters(piece));
  const auto after = static_cast<int32_t>(num_characters(replacement));
  int32_t index = 0;
  for (size_t at = 0; at < replacement.size(); ++index) {
    const Utf8Character character = character_at(replacement, at);
    changes.push_back({character.value, index >= before ? 1 : 0});
    at += character.size;
  }
  if (after < before && !changes.empty()) changes.back().change -= before - after;
}

}  // namespace

PrecompiledNormalizer::PrecompiledNormalizer(const JsonNode& node)
    : map_(read_map(node.member("precompiled_charsmap"))) {
  node.require_members_among({"type", "precompiled_charsmap"});
  for (size_t i = 0; i < ascii_unchanged_.size(); ++i) {
    const auto byte = static_cast<char>(i);
    ascii_unchanged_[i] = byte != '\r' && !map_.find({&byte, 1});
  }
}

bool PrecompiledNormalizer::change_grapheme(std::string_view grapheme, std::vector<CharacterChange>& changes) const {
  if (grapheme.size() < kTooLargeForTheMap) {
    if (const auto replacement = map_.find(grapheme)) {
      replace(grapheme, *replacement, changes);
      return true;
    }
  }
  bool changed = false;
  for (size_t at = 0; at < grapheme.size();) {
    const Utf8Character character = character_at(grapheme, at);
    const std::string_view piece = grapheme.substr(at, character.size);
    if (const auto replacement = map_.find(piece)) {
      replace(piece, *replacement, changes);
      changed = true;
    } else {
      changes.push_back({character.value, 0});
    }
    at += character.size;
  }
  return changed;
}

void PrecompiledNormalizer::apply(AlignedText& text, AlignedText& spare) const {
  const std::string_view before = text.text();
  const auto unchanged = [&](size_t at) {
    const auto byte = static_cast<uint8_t>(before[at]);
    return byte < ascii_unchanged_.size() && ascii_unchanged_[byte];
  };
  size_t first = 0;
  while (first < before.size() && unchanged(first)) ++first;
  if (first == before.size()) return;
  // Work space that each thread keeps.
  static thread_local std::vector<CharacterChange> changes;
  const KeptMemoryUse use(changes);
  changes.clear();
  bool changed = false;
  // Between two characters of ASCII a grapheme always ends, but inside a line end of two.
  const size_t begin = first == 0 ? 0 : first - 1;
  for_each_grapheme(before.substr(begin),
                    [&](std::string_view grapheme) { changed |= change_grapheme(grapheme, changes); });
  if (!changed) return;
  spare.clear(text.tracking());
  spare.append(text, 0, begin);
  spare.append_changed(changes, text, begin);
  std::swap(text, spare);
}

nlohmann::ordered_json PrecompiledNormalizer::to_json() const {
  return {{"type", "Precompiled"}, {"precompiled_charsmap", encode_base64(map_.bytes())}};
}

}  // namespace millrace
