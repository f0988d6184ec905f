// Compares tokenizers with what the Python package makes of texts; kUsage says how.
#include "millrace/tokenizer/tokenizer.h"

#include <cstdio>
#include <exception>
#include <string>

#include "tests/tokenizer/golden_cases.h"

namespace {

constexpr const char* kUsage =
    "usage: tokenizer_test --dir DIR [--write FILE]\n"
    "       tokenizer_test --file NAME.json\n"
    "       tokenizer_test --help\n";
constexpr const char* kHelp =
    "\n"
    "Compares tokenizers with what the Python package tokenizers 0.21 makes of texts: ids, tokens, offsets, masks,\n"
    "types, decoded texts, whatever a case has. Each tokenizer is tried as it is and as we write it. Prints what\n"
    "differs and how many texts and pairs there are; ends with 1 where something differs.\n"
    "\n"
    "  --dir DIR         DIR holds tokenizer.json, encodings.jsonl and pairs.jsonl, or several such, the three names "
    "of\n"
    "                    each with a prefix of its own (bpe_tokenizer.json)\n"
    "  --write FILE      writes what we make of DIR/tokenizer.json there first\n"
    "  --file NAME.json  a tokenizer, with its cases in NAME.expected.json beside it: an array of objects with text, "
    "and\n"
    "                    any of pair, ids, tokens, decoded (special tokens included), decoded_skip (without them),\n"
    "                    offsets, byte_offsets, type_ids, special_tokens_mask, attention_mask, ids_no_special\n";

}  // namespace

int main(int argc, char** argv) {
  const std::string option = argc > 1 ? argv[1] : "";
  if (option == "--help" && argc == 2) {
    std::printf("%s%s", kUsage, kHelp);
    return 0;
  }
  const bool folder = option == "--dir";
  const bool write = folder && argc == 5 && std::string(argv[3]) == "--write";
  if ((argc != 3 && !write) || (!folder && option != "--file")) {
    std::fprintf(stderr, "%s", kUsage);
    return 2;
  }
  try {
    if (write) millrace::Tokenizer::load(std::string(argv[2]) + "/tokenizer.json").save(argv[4]);
    const millrace::test::TokenizerReport report =
        folder ? millrace::test::check_tokenizer_cases(argv[2]) : millrace::test::check_tokenizer_file(argv[2]);
    for (const std::string& failure : report.failures) std::printf("%s\n", failure.c_str());
    std::printf("%d tokenizers as they are and written again, %d texts, %d pairs, %zu differences\n",
                report.num_tokenizers, report.num_texts, report.num_pairs, report.failures.size());
    return report.failures.empty() && report.num_texts > 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tokenizer_test: %s\n", error.what());
    return 1;
  }
}
