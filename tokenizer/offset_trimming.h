#pragma once

#include <span>
#include <string_view>

#include "millrace/tokenizer/post_processors/post_processor.h"
#include "millrace/tokenizer/token_encoding.h"

namespace millrace {

/// Sets the offsets of a text's tokens, in code points, from their places in bytes, and what the trimmings, one after
/// the other, make of both. `is_second`: whether it is the second text of a pair. `add_special_tokens`: whether they
/// will be around the tokens.
void set_offsets(std::string_view text, std::span<const OffsetTrimming> trimmings, bool is_second,
                 bool add_special_tokens, TokenEncoding& encoding);

}  // namespace millrace
