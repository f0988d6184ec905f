#include "millrace/tokenizer/normalizers/strip.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "millrace/tokenizer/character_classes.h"

namespace millrace {

StripNormalizer::StripNormalizer(const JsonNode& node)
    : left_(node.member("strip_left").boolean()), right_(node.member("strip_right").boolean()) {
  node.require_members_among({"type", "strip_left", "strip_right"});
}

void StripNormalizer::apply(AlignedText& text, AlignedText& spare) const {
  const std::string_view before = text.text();
  const size_t begin = left_ ? white_space_at_begin(before) : 0;
  const size_t end = before.size() - (right_ ? white_space_at_end(before.substr(begin)) : 0);
  if (begin == 0 && end == before.size()) return;
  spare.clear(text.tracking());
  spare.append(text, begin, end);
  std::swap(text, spare);
}

nlohmann::ordered_json StripNormalizer::to_json() const {
  return {{"type", "Strip"}, {"strip_left", left_}, {"strip_right", right_}};
}

}  // namespace millrace
