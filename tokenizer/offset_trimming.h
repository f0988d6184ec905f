#pragma once

#include "tokenizer/tokenizer.h"

namespace millrace {

/// Takes the white space at the ends of a text's tokens, as byte-level models write it, out of their offsets, which
/// count code points. `add_prefix_space`: a single character of white space in front of a token was added, and is left
/// as it is, where the offsets begin with the text or, with `spare_first`, the token is the first one.
void trim_offsets(bool add_prefix_space, bool spare_first, TokenEncoding& encoding);

}  // namespace millrace
