#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "millrace/tokenizer/json_node.h"

namespace millrace {

/// What a Metaspace component is given, as pre-tokenizer and as decoder.
struct MetaspaceOptions {
  enum class Prepend {
    kAlways,  ///< in front of every part of the text that does not begin with the replacement
    kFirst,   ///< in front of the part that stands for the beginning of the original text only
    kNever,
  };

  std::string replacement = "\u2581";  ///< one character that stands for a space
  Prepend prepend = Prepend::kAlways;
  bool split = true;  ///< a word begins at each replacement

  /// Reads `{"type": "Metaspace", "replacement": …, "prepend_scheme": …, "split": …}`, also with the older
  /// `add_prefix_space`.
  static MetaspaceOptions read(const JsonNode& node);
  nlohmann::ordered_json to_json() const;
};

}  // namespace millrace
