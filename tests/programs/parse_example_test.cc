// Runs a file of records, feature descriptions and of what TensorFlow parses through the operators: see kUsage.
#include <cstdio>
#include <exception>
#include <string>

#include "tests/ops/parse_cases.h"
#include "tests/support/example_parsing.h"

namespace {

constexpr const char* kUsage =
    "usage: parse_example_test --file PATH [--only NAME]\n"
    "Parses the records of each line of PATH (the format is in tests/data/parse_example/README.md), one by one and as\n"
    "a batch, and compares values, shapes and errors. Prints the first difference of each case that fails, then\n"
    "'N passed, M failed'. Exit status: 0 when all pass, 1 when some fail, 2 when nothing can be run.\n"
    "  --file PATH   cases, one JSON object a line\n"
    "  --only NAME   the cases of this name. Default: all\n"
    "  --help        this text\n";

}  // namespace

int main(int argc, char** argv) {
  using namespace millrace::test;
  std::string file;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--help") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    std::string* value = option == "--file" ? &file : option == "--only" ? &only : nullptr;
    if (value == nullptr || i + 1 == argc) {
      std::fprintf(stderr, "parse_example_test: %s '%s'\n%s", value == nullptr ? "unknown option" : "no value for",
                   argv[i], kUsage);
      return 2;
    }
    *value = argv[++i];
  }
  if (file.empty()) {
    std::fprintf(stderr, "parse_example_test: --file is needed\n%s", kUsage);
    return 2;
  }
  try {
    int passed = 0;
    int failed = 0;
    for (const nlohmann::json& golden : read_json_lines(file)) {
      const std::string name = golden.at("name");
      if (!only.empty() && name != only) continue;
      const std::string difference = run_parse_case(golden);
      if (difference.empty()) {
        ++passed;
      } else {
        std::printf("%s: %s\n", name.c_str(), difference.substr(0, 1000).c_str());
        ++failed;
      }
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    if (passed + failed == 0) {
      std::fprintf(stderr, "parse_example_test: no case%s in %s\n", only.empty() ? "" : (" '" + only + "'").c_str(),
                   file.c_str());
      return 2;
    }
    return failed == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "parse_example_test: %s\n", error.what());
    return 2;
  }
}
