// Runs a file of golden parse cases: parse_example_test --file PATH [--only NAME]. Prints what differs and how many
// cases passed, failed, and use a kind of feature that is not built yet.
#include <cstdio>
#include <exception>
#include <string>

#include "tests/support/example_parsing.h"

int main(int argc, char** argv) {
  using namespace millrace::test;
  std::string file;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    std::string* value = option == "--file" ? &file : option == "--only" ? &only : nullptr;
    if (value == nullptr || i + 1 == argc) {
      std::fprintf(stderr,
                   "parse_example_test: cannot take '%s'; usage: parse_example_test --file PATH [--only NAME]\n",
                   argv[i]);
      return 2;
    }
    *value = argv[++i];
  }
  if (file.empty()) {
    std::fprintf(stderr, "usage: parse_example_test --file PATH [--only NAME]\n");
    return 2;
  }
  try {
    int passed = 0;
    int failed = 0;
    int not_yet = 0;
    for (const nlohmann::json& golden : read_json_lines(file)) {
      const std::string name = golden.at("name");
      if (!only.empty() && name != only) continue;
      const ParseCaseOutcome outcome = run_parse_case(golden);
      if (outcome.result == ParseCaseResult::kFailed) {
        std::printf("%s: %s\n", name.c_str(), outcome.difference.c_str());
        ++failed;
      } else {
        ++(outcome.result == ParseCaseResult::kPassed ? passed : not_yet);
      }
    }
    std::printf("%d passed, %d failed, %d not built yet\n", passed, failed, not_yet);
    return failed == 0 && passed > 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "parse_example_test: %s\n", error.what());
    return 1;
  }
}
