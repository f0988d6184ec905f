#pragma once

#include <string>
#include <vector>

namespace millrace::test {

/// Writes rows of letters and their tokenizer into a folder, `text.txt` and `tokenizer.json`, and gives the command
/// that makes shards of them there, in `shards`, with records of 16 tokens.
std::vector<std::string> small_mlm_preparation(const std::string& folder, int num_rows,
                                               const std::vector<std::string>& more = {});

/// The command that trains a tiny model on `SET/shards` with `SET/tokenizer.json`. What is given later counts.
std::vector<std::string> small_mlm_training(const std::string& out, const std::string& set,
                                            const std::vector<std::string>& more);

}  // namespace millrace::test
