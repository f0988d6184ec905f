#include "millrace/tokenizer/token_padding.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/utf8.h"

namespace millrace {

TokenPadding TokenPadding::read(const JsonNode& node) {
  node.require_members_among({"strategy", "direction", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token"});
  TokenPadding padding;
  const JsonNode strategy = node.member("strategy");
  if (strategy.value().is_string()) {
    if (strategy.string() != "BatchLongest") {
      strategy.fail(fmt::format("expected 'BatchLongest' or a Fixed length, found '{}'", excerpt(strategy.string())));
    }
  } else {
    strategy.require_members_among({"Fixed"});
    padding.length = strategy.member("Fixed").count();
  }
  padding.direction = read_token_end(node.member("direction"));
  if (const auto multiple = node.find("pad_to_multiple_of")) padding.multiple_of = multiple->count();
  padding.pad_id = node.member("pad_id").id();
  padding.pad_type_id = node.member("pad_type_id").id();
  padding.pad_token = node.member("pad_token").string();
  return padding;
}

nlohmann::ordered_json TokenPadding::to_json() const {
  return {{"strategy", length ? nlohmann::ordered_json{{"Fixed", *length}} : nlohmann::ordered_json("BatchLongest")},
          {"direction", millrace::to_json(direction)},
          {"pad_to_multiple_of", multiple_of ? nlohmann::ordered_json(*multiple_of) : nlohmann::ordered_json()},
          {"pad_id", pad_id},
          {"pad_type_id", pad_type_id},
          {"pad_token", pad_token}};
}

size_t TokenPadding::padded_length(size_t num_tokens) const {
  size_t target = length.value_or(num_tokens);
  if (multiple_of && *multiple_of > 0 && target % *multiple_of != 0) target += *multiple_of - target % *multiple_of;
  return std::max(num_tokens, target);
}

}  // namespace millrace
