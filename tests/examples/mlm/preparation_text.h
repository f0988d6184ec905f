#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "examples/mlm/shard_preparation.h"
#include "tests/support/temporary_folder.h"

namespace millrace::test {

/// `num_rows` lines of lower-case letters, 0 to 40 of each, the same in every process.
std::vector<std::string> numbered_rows(int num_rows);

/// Gives these rows. They must outlive it.
RowSource source_of(const std::vector<std::string>& rows);

/// Ids: 0 before a row, 1 after it, 5 to 30 for its letters; of the 32, 0 to 4 are special, 31 never occurs.
RowEncoder letter_encoder();

/// A tokenizer.json with the special tokens [CLS]=0 [SEP]=1 <unk>=2 <pad>=3 [MASK]=4 and a token for each lower-case
/// letter and the space.
std::string letter_tokenizer_json();

}  // namespace millrace::test
