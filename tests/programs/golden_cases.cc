#include "tests/programs/golden_cases.h"

#include <cstdio>
#include <exception>

namespace millrace::test {
namespace {

// What a case throws is its difference: the others still run.
std::string difference_of(const GoldenCase& golden) {
  try {
    return golden.difference();
  } catch (const std::exception& error) {
    return std::string("not run: ") + error.what();
  }
}

}  // namespace

int run_golden_cases(int argc, char** argv, const char* program, const char* usage,
                     const std::function<std::vector<GoldenCase>(const std::string& path)>& read) {
  std::string file;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--help") {
      std::fputs(usage, stdout);
      return 0;
    }
    std::string* value = option == "--file" ? &file : option == "--only" ? &only : nullptr;
    if (value == nullptr || i + 1 == argc) {
      std::fprintf(stderr, "%s: %s '%s'\n%s", program, value == nullptr ? "unknown option" : "no value for", argv[i],
                   usage);
      return 2;
    }
    *value = argv[++i];
  }
  if (file.empty()) {
    std::fprintf(stderr, "%s: --file is missing\n%s", program, usage);
    return 2;
  }
  try {
    int passed = 0;
    int failed = 0;
    for (const GoldenCase& golden : read(file)) {
      if (!only.empty() && golden.name != only) continue;
      const std::string difference = difference_of(golden);
      if (difference.empty()) {
        ++passed;
        continue;
      }
      ++failed;
      std::printf("%s: %s\n", golden.name.c_str(), difference.c_str());
    }
    if (passed + failed == 0) {
      std::fprintf(stderr, "%s: %s has no case%s%s\n", program, file.c_str(), only.empty() ? "" : " named ",
                   only.c_str());
      return 2;
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 2;
  }
}

}  // namespace millrace::test
