// Compares optimizers and schedules with golden tables of other implementations: optimizer_golden_test --dir DIR, where
// DIR holds optimizers.json and schedules.json (the layout of tests/data/trainer). Prints a line for each case with its
// largest difference, and `N passed, M failed`.
#include <cstdio>
#include <exception>
#include <string>

#include "tests/trainer/optimizers/golden_updates.h"

int main(int argc, char** argv) {
  if (argc != 3 || std::string(argv[1]) != "--dir") {
    std::fprintf(stderr, "usage: optimizer_golden_test --dir DIR\n");
    return 2;
  }
  try {
    const std::string folder = argv[2];
    int passed = 0;
    int failed = 0;
    for (const auto& report : {millrace::test::check_optimizers(folder + "/optimizers.json"),
                               millrace::test::check_optimizer_formulas(folder + "/optimizers.json"),
                               millrace::test::check_schedules(folder + "/schedules.json")}) {
      for (const auto& golden : report.cases) {
        std::printf("%-7s %.1e  %s%s%s\n", golden.failure.empty() ? "passed" : "FAILED", golden.largest_difference,
                    golden.name.c_str(), golden.failure.empty() ? "" : ": ", golden.failure.c_str());
      }
      failed += report.failed();
      passed += static_cast<int>(report.cases.size()) - report.failed();
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "optimizer_golden_test: %s\n", error.what());
    return 1;
  }
}
