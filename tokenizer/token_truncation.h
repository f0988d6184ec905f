#pragma once

#include <cstddef>
#include <utility>

#include <nlohmann/json_fwd.hpp>

#include "millrace/tokenizer/json_node.h"
#include "millrace/tokenizer/token_end.h"

namespace millrace {

/// How long encodings may become, special tokens included.
struct TokenTruncation {
  enum class Strategy {
    kLongestFirst,  ///< the longer text of a pair, down to the length of the other one, then both
    kOnlyFirst,     ///< the first text
    kOnlySecond,    ///< the second text of a pair
  };

  /// Default: 512.
  size_t max_length = 512;
  /// Default: longest first.
  Strategy strategy = Strategy::kLongestFirst;
  /// Where tokens are cut off. Default: right.
  TokenEnd direction = TokenEnd::kRight;
  /// Tokens that pieces after the first would have in common in the Python package; here there are none, so it is only
  /// kept for the file. Default: 0.
  size_t stride = 0;

  static TokenTruncation read(const JsonNode& node);
  nlohmann::ordered_json to_json() const;

  /// Tokens that stay of `first` and `second` ones when `num_added` are put around them; no second text: 0 and `pair`
  /// false. Throws `kInvalidArgument` when the strategy cannot make them fit.
  std::pair<size_t, size_t> lengths(size_t first, size_t second, bool pair, size_t num_added) const;

  bool operator==(const TokenTruncation&) const = default;
};

}  // namespace millrace
