#pragma once

#include <string>

namespace millrace::test {

/// A tokenizer.json in the layout of a T5: `<pad>` 0, `</s>` 1, `<unk>` 2, ▁ 3, a to z 4 to 29, the words ▁none 30,
/// ▁low 31, ▁high 32, `<extra_id_1>` 33, `<extra_id_0>` 34.
std::string small_t5_tokenizer_json();

}  // namespace millrace::test
