#pragma once

#include <string>
#include <vector>

namespace millrace::test {

/// Prepares two folds of `quest_csv` with a tokenizer of letters.
std::vector<std::string> small_quest_preparation(const std::string& csv, const std::string& tokenizer,
                                                 const std::string& out);
/// Trains a tiny model on them.
std::vector<std::string> small_quest_training(const std::string& shards, const std::string& tokenizer,
                                              const std::string& out);

}  // namespace millrace::test
