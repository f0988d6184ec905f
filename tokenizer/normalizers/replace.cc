#include "tokenizer/normalizers/replace.h"

#include <utility>

namespace millrace {

ReplaceNormalizer::ReplaceNormalizer(const JsonNode& node) : content_(node.member("content").string()) {
  node.require_members_among({"type", "pattern", "content"});
  const JsonNode pattern = node.member("pattern");
  pattern.require_members_among({"String", "Regex"});
  if (const auto regex = pattern.find("Regex")) regex->fail("patterns that are regular expressions are not supported");
  pattern_ = pattern.member("String").string();
}

void ReplaceNormalizer::apply(AlignedText& text, AlignedText& spare) const {
  const std::string_view before = text.text();
  if (pattern_.empty()) return;
  size_t match = before.find(pattern_);
  if (match == std::string_view::npos) return;
  spare.clear(text.tracking());
  size_t copied = 0;
  while (match != std::string_view::npos) {
    spare.append(text, copied, match);
    copied = match + pattern_.size();
    spare.append_new(content_, text, copied - 1);
    match = before.find(pattern_, copied);
  }
  spare.append(text, copied, before.size());
  std::swap(text, spare);
}

}  // namespace millrace
