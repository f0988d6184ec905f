#pragma once

#include <nlohmann/json_fwd.hpp>

#include "millrace/tokenizer/json_node.h"

namespace millrace {

/// An end of a row of tokens, where some are cut off or added.
enum class TokenEnd {
  kLeft,
  kRight,
};

/// Reads `"Left"` or `"Right"`.
TokenEnd read_token_end(const JsonNode& node);
nlohmann::ordered_json to_json(TokenEnd end);

}  // namespace millrace
