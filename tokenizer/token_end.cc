#include "millrace/tokenizer/token_end.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/utf8.h"

namespace millrace {

TokenEnd read_token_end(const JsonNode& node) {
  const std::string name = node.string();
  if (name != "Left" && name != "Right")
    node.fail(fmt::format("expected 'Left' or 'Right', found '{}'", excerpt(name)));
  return name == "Left" ? TokenEnd::kLeft : TokenEnd::kRight;
}

nlohmann::ordered_json to_json(TokenEnd end) { return end == TokenEnd::kLeft ? "Left" : "Right"; }

}  // namespace millrace
