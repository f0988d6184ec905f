// Compares a tokenizer with what the Python package makes of texts: tokenizer_test --dir DIR, where DIR holds
// tokenizer.json, encodings.jsonl and pairs.jsonl. Prints what differs and how many texts and pairs there are.
#include <cstdio>
#include <exception>
#include <string>

#include "tests/tokenizer/golden_cases.h"

int main(int argc, char** argv) {
  if (argc != 3 || std::string(argv[1]) != "--dir") {
    std::fprintf(stderr, "usage: tokenizer_test --dir DIR\n");
    return 2;
  }
  try {
    const millrace::test::TokenizerReport report = millrace::test::check_tokenizer_cases(argv[2]);
    for (const std::string& failure : report.failures) std::printf("%s\n", failure.c_str());
    std::printf("%d texts, %d pairs, %zu differences\n", report.num_texts, report.num_pairs, report.failures.size());
    return report.failures.empty() && report.num_texts > 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tokenizer_test: %s\n", error.what());
    return 1;
  }
}
