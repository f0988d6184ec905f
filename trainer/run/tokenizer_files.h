#pragma once

#include <cstdint>
#include <string>

namespace millrace {

/// Writes a model's `tokenizer.json`, a copy of `tokenizer_file`, and `tokenizer_config.json`, which says what the
/// first does not: which token plays which part, and `model_max_length`. PreTrainedTokenizerFast loads them. The
/// directory must exist. Throws `kIo` naming the file.
void save_tokenizer_files(const std::string& directory, const std::string& tokenizer_file, int64_t model_max_length);

/// Whether two `tokenizer.json` say the same, whichever way they are laid out.
[[nodiscard]] bool is_same_tokenizer(const std::string& file, const std::string& other);

/// A digest (XXH3) of a tokenizer's file, or the one at a URL: what was made with it writes it down. Throws `kIo`.
[[nodiscard]] std::string tokenizer_digest(const std::string& file);

/// Throws `kInvalidArgument` when the model in a directory, with `vocab_size` entries, cannot read what this tokenizer
/// writes: the tokenizer has more tokens, or there is another one in the directory.
void check_tokenizer_of(const std::string& directory, int64_t vocab_size, const std::string& tokenizer_file);

}  // namespace millrace
