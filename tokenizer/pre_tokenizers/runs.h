#pragma once

#include "millrace/tokenizer/aligned_text.h"

namespace millrace {

/// The kind of characters that belong to no word.
inline constexpr int kDroppedRun = 0;

/// Cuts each word of `text` into runs of characters of one kind, and drops those of kind `kDroppedRun`. `spare` is work
/// space with any contents.
void cut_into_runs(int (*kind_of)(char32_t), WordedText& text, WordedText& spare);

}  // namespace millrace
