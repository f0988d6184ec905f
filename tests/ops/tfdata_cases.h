#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace millrace::test {

// One pipeline and what tf.data gives for it; the grammar is in tests/data/tfdata_ops/README.md.
struct TfdataCase {
  std::string name;
  nlohmann::json definition;
};

// The cases of a file with one JSON object a line. Throws std::runtime_error that names file and line.
std::vector<TfdataCase> read_tfdata_cases(const std::string& path);

enum class CaseResult {
  kPassed,
  kFailed,
  kNotYet,  // uses an operator that is not built yet
};

struct CaseOutcome {
  CaseResult result = CaseResult::kPassed;
  std::string difference;  // the first one, or the operator that is missing
};

// Builds the pipeline with the builder, runs it with and without random cuts and pending between the steps, and
// compares elements, order, the place and kind of the error, and cardinality.
CaseOutcome run_tfdata_case(const TfdataCase& golden);

}  // namespace millrace::test
