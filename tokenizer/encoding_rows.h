#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "millrace/tokenizer/token_encoding.h"
#include "millrace/tokenizer/token_end.h"
#include "millrace/tokenizer/token_padding.h"

namespace millrace {

/// Appends a token of the text: its id, text, mask and place in bytes. The other members are made when all are there.
void append_token(TokenEncoding& encoding, int32_t id, std::string token, TextSpan bytes);
/// Moves a text's tokens, with their offsets, after those of `to`.
void move_tokens(TokenEncoding& from, TokenEncoding& to);
/// Cuts a text's tokens down to `length`, at `cut`, where they are more.
void cut_tokens(TokenEncoding& encoding, size_t length, TokenEnd cut);
/// Pads a whole encoding.
void pad_tokens(TokenEncoding& encoding, const TokenPadding& padding);

/// Keeps `count` of a row's elements from `first` on; the others there are cut off at `cut`.
template <typename Row>
void keep_tokens(Row& row, size_t first, size_t count, TokenEnd cut) {
  const auto begin = row.begin() + static_cast<std::ptrdiff_t>(first);
  const auto too_many = static_cast<std::ptrdiff_t>(row.size() - first - count);
  cut == TokenEnd::kRight ? row.erase(row.end() - too_many, row.end()) : row.erase(begin, begin + too_many);
}

}  // namespace millrace
