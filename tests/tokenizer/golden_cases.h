#pragma once

#include <string>
#include <vector>

namespace millrace::test {

/// What a comparison with the Python package came to.
struct TokenizerReport {
  int num_tokenizers = 0;
  int num_texts = 0;                  ///< each counts twice: with the file as it is, and as we write it
  int num_pairs = 0;                  ///< the same
  std::vector<std::string> failures;  ///< one line each: file, line, field, what was expected, what was found
};

/// Encodes the texts of `FOLDER/Xencodings.jsonl` and `FOLDER/Xpairs.jsonl` with each `FOLDER/Xtokenizer.json`, for any
/// X, and with what we write of it, and compares every field that a line holds: ids, tokens, masks, types, offsets in
/// code points and in bytes, decoded texts. `encode_ids` is compared as well. Throws ErrorException when a file cannot
/// be read.
TokenizerReport check_tokenizer_cases(const std::string& folder);

/// Does the same with `NAME.json`, a tokenizer, and `NAME.expected.json` beside it, an array of objects with `text` and
/// any of the fields of those lines; but `decoded` is the text with special tokens, `decoded_skip` the one without
/// them.
TokenizerReport check_tokenizer_file(const std::string& path);

}  // namespace millrace::test
