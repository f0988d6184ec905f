#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "millrace/tokenizer/json_node.h"
#include "millrace/tokenizer/token_end.h"

namespace millrace {

/// How short encodings are made longer. Encodings are padded one by one: without a length of its own (`BatchLongest` in
/// files) only `multiple_of` does something, and making rows of a batch equal is left to `Dataset::padded_batch`.
struct TokenPadding {
  /// Default: none.
  std::optional<size_t> length = {};
  /// Lengths are rounded up to a multiple of this. Default: none.
  std::optional<size_t> multiple_of = {};
  /// Where padding is put. Default: right.
  TokenEnd direction = TokenEnd::kRight;
  /// Default: 0.
  int32_t pad_id = 0;
  /// Default: 0.
  int32_t pad_type_id = 0;
  /// Default: [PAD].
  std::string pad_token = "[PAD]";

  static TokenPadding read(const JsonNode& node);
  nlohmann::ordered_json to_json() const;

  /// What an encoding of `num_tokens` tokens is padded to.
  size_t padded_length(size_t num_tokens) const;

  bool operator==(const TokenPadding&) const = default;
};

}  // namespace millrace
