#include "millrace/tokenizer/encoding_rows.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace millrace {

void append_token(TokenEncoding& encoding, int32_t id, std::string token, TextSpan bytes) {
  encoding.ids.push_back(id);
  encoding.tokens.push_back(std::move(token));
  encoding.special_tokens_mask.push_back(0);
  encoding.byte_offsets.push_back(bytes);
}

void move_tokens(TokenEncoding& from, TokenEncoding& to) {
  const auto move = [](auto& rows, auto& all) { std::move(rows.begin(), rows.end(), std::back_inserter(all)); };
  move(from.ids, to.ids);
  move(from.tokens, to.tokens);
  move(from.special_tokens_mask, to.special_tokens_mask);
  move(from.offsets, to.offsets);
  move(from.byte_offsets, to.byte_offsets);
}

void cut_tokens(TokenEncoding& encoding, size_t length, TokenEnd cut) {
  const auto cut_row = [&](auto& row) {
    if (row.size() > length) keep_tokens(row, 0, length, cut);
  };
  cut_row(encoding.ids);
  cut_row(encoding.tokens);
  cut_row(encoding.type_ids);
  cut_row(encoding.special_tokens_mask);
  cut_row(encoding.attention_mask);
  cut_row(encoding.offsets);
  cut_row(encoding.byte_offsets);
}

void pad_tokens(TokenEncoding& encoding, const TokenPadding& padding) {
  const size_t count = padding.padded_length(encoding.ids.size()) - encoding.ids.size();
  const auto add = [&](auto& row, const auto& value) {
    row.insert(padding.direction == TokenEnd::kRight ? row.end() : row.begin(), count, value);
  };
  add(encoding.ids, padding.pad_id);
  add(encoding.tokens, padding.pad_token);
  add(encoding.type_ids, padding.pad_type_id);
  add(encoding.special_tokens_mask, uint8_t{1});
  add(encoding.attention_mask, uint8_t{0});
  add(encoding.offsets, TextSpan{});
  add(encoding.byte_offsets, TextSpan{});
}

}  // namespace millrace
