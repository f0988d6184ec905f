// Runs a file of pipelines and of what tf.data gives for them through the builder: see kUsage.
#include <cstdio>
#include <exception>
#include <string>

#include "tests/ops/tfdata_cases.h"

namespace {

constexpr const char* kUsage =
    "usage: tfdata_ops_test --file PATH [--only NAME]\n"
    "Builds the pipeline of each line of PATH (the grammar is in tests/data/tfdata_ops/README.md), runs it, and "
    "compares\n"
    "elements, order, the place and kind of the error, and cardinality. Prints the first difference of each case that\n"
    "fails, then 'N passed, M failed'. A case with an operator that is not built yet fails. Exit status: 0 when all "
    "pass,\n"
    "1 when some fail, 2 when nothing can be run.\n"
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
      std::fprintf(stderr, "tfdata_ops_test: %s '%s'\n%s", value == nullptr ? "unknown option" : "no value for",
                   argv[i], kUsage);
      return 2;
    }
    *value = argv[++i];
  }
  if (file.empty()) {
    std::fprintf(stderr, "tfdata_ops_test: --file is missing\n%s", kUsage);
    return 2;
  }
  try {
    int passed = 0;
    int failed = 0;
    for (const TfdataCase& golden : read_tfdata_cases(file)) {
      if (!only.empty() && golden.name != only) continue;
      const CaseOutcome outcome = run_tfdata_case(golden);
      if (outcome.result == CaseResult::kPassed) {
        ++passed;
        continue;
      }
      ++failed;
      std::printf("%s: %s%s\n", golden.name.c_str(), outcome.result == CaseResult::kNotYet ? "not built yet: " : "",
                  outcome.difference.c_str());
    }
    if (passed + failed == 0) {
      std::fprintf(stderr, "tfdata_ops_test: %s has no case%s%s\n", file.c_str(), only.empty() ? "" : " named ",
                   only.c_str());
      return 2;
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tfdata_ops_test: %s\n", error.what());
    return 2;
  }
}
