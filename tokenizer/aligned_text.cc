#include "tokenizer/aligned_text.h"

namespace millrace {

void AlignedText::clear(bool tracking) {
  text_.clear();
  origins_.clear();
  tracking_ = tracking;
}

void AlignedText::append_original(std::string_view bytes, uint32_t origin) {
  text_.append(bytes);
  if (!tracking_) return;
  // Every byte of a character stands for the whole character.
  for (size_t begin = 0; begin < bytes.size();) {
    size_t end = begin + 1;
    while (end < bytes.size() && (static_cast<uint8_t>(bytes[end]) & 0xc0) == 0x80) ++end;
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

}  // namespace millrace
