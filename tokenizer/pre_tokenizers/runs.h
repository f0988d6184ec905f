#pragma once

#include "millrace/tokenizer/aligned_text.h"

namespace millrace {

/// The kind of characters that belong to no word.
inline constexpr int kDroppedRun = 0;

/// The kind of characters each of which is a word.
inline constexpr int kSingleCharacters = -1;

/// Cuts each word of `text` into runs of characters of one kind, drops those of kind `kDroppedRun`, and cuts those of
/// kind `kSingleCharacters` into characters. `spare` is work space with any contents.
void cut_into_runs(int (*kind_of)(char32_t), WordedText& text, WordedText& spare);

}  // namespace millrace
