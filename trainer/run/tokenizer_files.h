#pragma once

#include <cstdint>
#include <string>

namespace millrace {

/// Writes a model's `tokenizer.json`, a copy of `tokenizer_file`, and `tokenizer_config.json`, which says what the
/// first does not: which token plays which part, and `model_max_length`. PreTrainedTokenizerFast loads them. The
/// directory must exist. Throws `kIo` naming the file.
void save_tokenizer_files(const std::string& directory, const std::string& tokenizer_file, int64_t model_max_length);

}  // namespace millrace
