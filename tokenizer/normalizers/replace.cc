#include "millrace/tokenizer/normalizers/replace.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/multiplied_text.h"

namespace millrace {

ReplaceNormalizer::ReplaceNormalizer(const JsonNode& node)
    : pattern_(node.member("pattern")), content_(node.member("content").string()) {
  node.require_members_among({"type", "pattern", "content"});
}

void ReplaceNormalizer::apply(AlignedText& text, AlignedText& spare) const {
  if (text.text().empty()) return;
  TextPattern::Cursor cursor(pattern_, text.text());
  std::optional<TextPattern::Match> match = cursor.next();
  if (!match) return;
  spare.clear(text.tracking());
  size_t copied = 0;
  for (; match; match = cursor.next()) {
    require_not_multiplied(text.text().size(), spare.text().size(), "a normalizer 'Replace'");
    spare.append(text, copied, match->begin);
    copied = match->end;
    if (copied == 0) {
      spare.append_new_before(content_, text);
    } else {
      spare.append_new(content_, text, copied - 1);
    }
  }
  spare.append(text, copied, text.text().size());
  std::swap(text, spare);
}

nlohmann::ordered_json ReplaceNormalizer::to_json() const {
  return {{"type", "Replace"}, {"pattern", pattern_.to_json()}, {"content", content_}};
}

}  // namespace millrace
