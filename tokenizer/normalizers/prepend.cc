#include "millrace/tokenizer/normalizers/prepend.h"

#include <utility>

#include <nlohmann/json.hpp>

namespace millrace {

PrependNormalizer::PrependNormalizer(const JsonNode& node) : prepended_(node.member("prepend").string()) {
  node.require_members_among({"type", "prepend"});
}

void PrependNormalizer::apply(AlignedText& text, AlignedText& spare) const {
  if (text.text().empty() || prepended_.empty()) return;
  spare.clear(text.tracking());
  spare.append_new(prepended_, text, 0);
  spare.append(text, 0, text.text().size());
  std::swap(text, spare);
}

nlohmann::ordered_json PrependNormalizer::to_json() const { return {{"type", "Prepend"}, {"prepend", prepended_}}; }

}  // namespace millrace
