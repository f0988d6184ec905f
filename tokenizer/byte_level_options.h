#pragma once

#include <nlohmann/json_fwd.hpp>

#include "millrace/tokenizer/json_node.h"

namespace millrace {

/// What a ByteLevel component is given, as pre-tokenizer, post-processor and decoder.
struct ByteLevelOptions {
  bool add_prefix_space = true;  ///< a space in front of words that do not begin with one
  bool trim_offsets = true;      ///< white space at the ends of tokens is not in their offsets
  bool use_regex = true;         ///< cut into the words of GPT-2

  /// Reads `{"type": "ByteLevel", "add_prefix_space": …, "trim_offsets": …, "use_regex": …}`; older files have no
  /// `use_regex`.
  static ByteLevelOptions read(const JsonNode& node);
  nlohmann::ordered_json to_json() const;
};

}  // namespace millrace
