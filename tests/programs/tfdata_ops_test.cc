// Runs a file of pipelines and of what tf.data gives for them through the builder: see kUsage.
#include <string>
#include <vector>

#include "tests/ops/tfdata_cases.h"
#include "tests/programs/golden_cases.h"

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
  return run_golden_cases(argc, argv, "tfdata_ops_test", kUsage, [](const std::string& path) {
    std::vector<GoldenCase> cases;
    for (const TfdataCase& golden : read_tfdata_cases(path)) {
      cases.push_back({golden.name, [golden] {
                         const CaseOutcome outcome = run_tfdata_case(golden);
                         if (outcome.result == CaseResult::kPassed) return std::string();
                         return (outcome.result == CaseResult::kNotYet ? "not built yet: " : "") + outcome.difference;
                       }});
    }
    return cases;
  });
}
