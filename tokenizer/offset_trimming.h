#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace millrace {

/// Takes the white space at the ends of a text's tokens from `first` on, as byte-level models write it, out of their
/// offsets, which count code points. `add_prefix_space`: a single character of white space in front of the
/// text's first token was added, and is left as it is.
void trim_offsets(bool add_prefix_space, size_t first, TokenEncoding& encoding);

}  // namespace millrace
