#include "millrace/tokenizer/aligned_text.h"

#include "millrace/tokenizer/byte_characters.h"
#include "millrace/tokenizer/kept_memory.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {

void AlignedText::clear(bool tracking) {
  text_.clear();
  origins_.clear();
  tracking_ = tracking;
}

void AlignedText::clear_and_free_large() {
  clear(tracking_);
  free_large(text_);
  free_large(origins_);
}

void AlignedText::append_original(std::string_view bytes, uint32_t origin) {
  text_.append(bytes);
  if (!tracking_) return;
  // Every byte of a character stands for the whole character.
  for (size_t begin = 0; begin < bytes.size();) {
    size_t end = begin + 1;
    while (end < bytes.size() && is_continuation_byte(bytes[end])) ++end;
    origins_.insert(origins_.end(), end - begin,
                    {origin + static_cast<uint32_t>(begin), origin + static_cast<uint32_t>(end)});
    begin = end;
  }
}

void AlignedText::append(const AlignedText& source, size_t begin, size_t end) {
  text_.append(source.text_, begin, end - begin);
  if (tracking_) {
    origins_.insert(origins_.end(), source.origins_.begin() + static_cast<std::ptrdiff_t>(begin),
                    source.origins_.begin() + static_cast<std::ptrdiff_t>(end));
  }
}

void AlignedText::append_new(std::string_view bytes, const AlignedText& source, size_t at) {
  text_.append(bytes);
  if (tracking_) origins_.insert(origins_.end(), bytes.size(), source.origins_[at]);
}

void AlignedText::append_new_before(std::string_view bytes, const AlignedText& source) {
  text_.append(bytes);
  if (!tracking_) return;
  const uint32_t place = source.origins_[0].begin;
  origins_.insert(origins_.end(), bytes.size(), {place, place});
}

void AlignedText::append_changed(std::span<const CharacterChange> changes, const AlignedText& source, size_t begin) {
  size_t at = begin;
  const auto skip_character = [&] {
    if (at < source.text_.size()) at += character_size(source.text_[at]);
  };
  for (const CharacterChange& change : changes) {
    const size_t size_before = text_.size();
    append_character(change.character, text_);
    if (tracking_) {
      const bool is_new = change.change > 0 || at >= source.text_.size();
      origins_.insert(origins_.end(), text_.size() - size_before, source.origins_[is_new && at > 0 ? at - 1 : at]);
    }
    for (int32_t i = change.change; i <= 0; ++i) skip_character();
  }
}

void AlignedText::append_byte_characters(const AlignedText& source, size_t begin, size_t end) {
  const auto& characters = byte_characters();
  const size_t size_before = text_.size();
  text_.resize(size_before + ByteCharacter::kMaxSize * (end - begin));
  char* out = text_.data() + size_before;
  for (size_t at = begin; at < end; ++at) {
    const ByteCharacter& character = characters[static_cast<uint8_t>(source.text_[at])];
    out[0] = character.bytes[0];
    out[1] = character.bytes[1];
    out += character.size;
    if (tracking_) origins_.insert(origins_.end(), character.size, source.origins_[at]);
  }
  text_.resize(static_cast<size_t>(out - text_.data()));
}

void AlignedText::lower_ascii() {
  for (char& byte : text_) {
    if (byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte + ('a' - 'A'));
  }
}

}  // namespace millrace
