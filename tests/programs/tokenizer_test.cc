// Compares tokenizers with what the Python package makes of texts: tokenizer_test --dir DIR, where DIR holds
// tokenizer.json, encodings.jsonl and pairs.jsonl, or several such, the three names of each with a prefix of their own
// (bpe_tokenizer.json). Prints what differs and how many texts and pairs there are. With --write FILE as well, what we
// write of DIR/tokenizer.json goes there first.
#include "millrace/tokenizer/tokenizer.h"

#include <cstdio>
#include <exception>
#include <string>

#include "tests/tokenizer/golden_cases.h"

int main(int argc, char** argv) {
  const bool write = argc == 5 && std::string(argv[3]) == "--write";
  if ((argc != 3 && !write) || std::string(argv[1]) != "--dir") {
    std::fprintf(stderr, "usage: tokenizer_test --dir DIR [--write FILE]\n");
    return 2;
  }
  try {
    if (write) millrace::Tokenizer::load(std::string(argv[2]) + "/tokenizer.json").save(argv[4]);
    const millrace::test::TokenizerReport report = millrace::test::check_tokenizer_cases(argv[2]);
    for (const std::string& failure : report.failures) std::printf("%s\n", failure.c_str());
    std::printf("%d tokenizers as they are and written again, %d texts, %d pairs, %zu differences\n",
                report.num_tokenizers, report.num_texts, report.num_pairs, report.failures.size());
    return report.failures.empty() && report.num_texts > 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tokenizer_test: %s\n", error.what());
    return 1;
  }
}
