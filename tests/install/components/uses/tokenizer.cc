#include "millrace/tokenizer/tokenizer.h"

#include <stdexcept>

void use_tokenizer() {
  const auto tokenizer = millrace::Tokenizer::from_json(
      R"({"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}})");
  if (tokenizer.id_of("b") != 1) throw std::runtime_error("tokenizer");
}
