#include "millrace/tokenizer/training/unigram_trainer.h"

#include <stdexcept>

void use_unigram_trainer() {
  millrace::UnigramTrainer trainer({.vocab_size = 8});
  trainer.add("a b a");
  if (trainer.train().size() != 8) throw std::runtime_error("unigram_trainer");
}
