#pragma once

#include <functional>
#include <string>
#include <vector>

namespace millrace::test {

/// One line of a file of golden cases. `difference` runs it and tells the first difference; empty where there is none.
struct GoldenCase {
  std::string name;
  std::function<std::string()> difference;
};

/// The main function of a program `NAME --file PATH [--only NAME]`: runs the cases of a file, prints the difference of
/// each that fails, then `N passed, M failed`. Returns 0 when all pass, 1 when some fail, 2 when nothing can be run.
/// `read` throws for a file that it cannot read.
int run_golden_cases(int argc, char** argv, const char* program, const char* usage,
                     const std::function<std::vector<GoldenCase>(const std::string& path)>& read);

}  // namespace millrace::test
