// Runs a file of records, feature descriptions and of what TensorFlow parses through the operators: see kUsage.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/ops/parse_cases.h"
#include "tests/programs/golden_cases.h"
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
  return run_golden_cases(argc, argv, "parse_example_test", kUsage, [](const std::string& path) {
    std::vector<GoldenCase> cases;
    for (nlohmann::json& line : read_json_lines(path)) {
      const auto golden = std::make_shared<const nlohmann::json>(std::move(line));
      cases.push_back({golden->at("name"), [golden] { return run_parse_case(*golden).substr(0, 1000); }});
    }
    return cases;
  });
}
