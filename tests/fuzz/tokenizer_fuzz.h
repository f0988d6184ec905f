#pragma once

#include <string_view>

namespace millrace::test {

/// Loads any bytes as a `tokenizer.json`, encodes with what comes of it, and writes it: never crashes or hangs, every
/// id is in the vocabulary, `encode_ids` gives the ids of `encode`, and what was written gives them too.
void fuzz_tokenizer_file(std::string_view bytes);

/// Encodes any bytes with tokenizers that have every component: refused when they are not UTF-8, else each token has
/// its place in the text, in order where no component changes it.
void fuzz_tokenizer_text(std::string_view bytes);

}  // namespace millrace::test
