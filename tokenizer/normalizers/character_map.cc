#include "millrace/tokenizer/normalizers/character_map.h"

#include "millrace/formats/utf8.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {
namespace {

constexpr size_t kUnitBytes = 4;

uint32_t read_number(std::string_view bytes, size_t at) {
  uint32_t number = 0;
  for (size_t i = kUnitBytes; i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  return number;
}

void write_number(uint32_t number, std::string& bytes) {
  for (size_t i = 0; i < kUnitBytes; ++i) bytes.push_back(static_cast<char>(number >> 8 * i & 0xff));
}

// The fields of a unit of the trie.
bool has_value(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7fffffffU; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000ffU; }
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 1U << 9) >> 6); }

}  // namespace

std::optional<CharacterMap> CharacterMap::parse(std::string_view bytes) {
  if (bytes.size() < kUnitBytes) return std::nullopt;
  const size_t trie_bytes = read_number(bytes, 0);
  bytes.remove_prefix(kUnitBytes);
  if (trie_bytes == 0 || trie_bytes % kUnitBytes != 0 || trie_bytes > bytes.size()) return std::nullopt;
  CharacterMap map;
  for (size_t at = 0; at < trie_bytes; at += kUnitBytes) map.units_.push_back(read_number(bytes, at));
  map.replacements_ = bytes.substr(trie_bytes);
  if (!is_valid_utf8(map.replacements_)) return std::nullopt;
  return map;
}

std::string CharacterMap::bytes() const {
  std::string bytes;
  write_number(static_cast<uint32_t>(kUnitBytes * units_.size()), bytes);
  for (const uint32_t unit : units_) write_number(unit, bytes);
  return bytes + replacements_;
}

std::optional<std::string_view> CharacterMap::find(std::string_view text) const {
  // A unit outside the array, or a replacement inside a character, is that of a table with damage.
  size_t at = offset_of(units_[0]);
  for (const char byte : text) {
    if (byte == '\0') break;
    const auto label = static_cast<uint8_t>(byte);
    at ^= label;
    if (at >= units_.size() || label_of(units_[at]) != label) break;
    const uint32_t unit = units_[at];
    at ^= offset_of(unit);
    if (!has_value(unit)) continue;
    if (at >= units_.size()) break;
    const size_t begin = value_of(units_[at]);
    if (begin >= replacements_.size() || is_continuation_byte(replacements_[begin])) break;
    return std::string_view(replacements_).substr(begin, replacements_.find('\0', begin) - begin);
  }
  return std::nullopt;
}

}  // namespace millrace
