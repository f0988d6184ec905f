#include "millrace/tokenizer/normalizers/byte_level.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/multiplied_text.h"

namespace millrace {

void ByteLevelNormalizer::apply(AlignedText& text, AlignedText& spare) const {
  spare.clear(text.tracking());
  spare.append_byte_characters(text, 0, text.text().size());
  require_not_multiplied(text.text().size(), spare.text().size(), "a normalizer 'ByteLevel'");
  std::swap(text, spare);
}

nlohmann::ordered_json ByteLevelNormalizer::to_json() const { return {{"type", "ByteLevel"}}; }

}  // namespace millrace
