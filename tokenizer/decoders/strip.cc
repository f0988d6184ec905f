#include "millrace/tokenizer/decoders/strip.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/utf8.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {

StripDecoder::StripDecoder(const JsonNode& node)
    : content_(node.member("content").string()),
      start_(node.member("start").count()),
      stop_(node.member("stop").count()) {
  node.require_members_among({"type", "content", "start", "stop"});
  if (num_characters(content_) != 1) {
    node.member("content").fail(fmt::format("expected one character, found '{}'", excerpt(content_)));
  }
}

void StripDecoder::apply(std::vector<std::string>& pieces) const {
  for (std::string& piece : pieces) {
    std::string_view rest = piece;
    for (size_t i = 0; i < start_ && rest.starts_with(content_); ++i) rest.remove_prefix(content_.size());
    for (size_t i = 0; i < stop_ && rest.ends_with(content_); ++i) rest.remove_suffix(content_.size());
    piece = std::string(rest);
  }
}

nlohmann::ordered_json StripDecoder::to_json() const {
  return {{"type", "Strip"}, {"content", content_}, {"start", start_}, {"stop", stop_}};
}

}  // namespace millrace
