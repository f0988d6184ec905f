#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

/// A piece of the original text, from `begin` up to but not including `end`.
struct TextSpan {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

/// A text as tokens. All members have one entry for each token.
struct TokenEncoding {
  std::vector<int32_t> ids = {};
  /// The tokens' texts after normalisation. An unknown token's is the text that it stands for (Unigram) or its own
  /// (the others).
  std::vector<std::string> tokens = {};
  /// 0 for the first text and what belongs to it, 1 for the second of a pair.
  std::vector<int32_t> type_ids = {};
  /// 1 for the special tokens that the template adds, and for padding; a special token found in the text itself has 0.
  std::vector<uint8_t> special_tokens_mask = {};
  /// 0 for padding, else 1.
  std::vector<uint8_t> attention_mask = {};
  /// Where the token is in its text, in code points; {0, 0} for tokens that the template adds.
  std::vector<TextSpan> offsets = {};
  /// The same in bytes of UTF-8.
  std::vector<TextSpan> byte_offsets = {};
};

}  // namespace millrace
