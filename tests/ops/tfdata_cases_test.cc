#include "tests/ops/tfdata_cases.h"

#include <gtest/gtest.h>

namespace millrace::test {
namespace {

TEST(TfdataCasesTest, OperatorsAgreeWithTfData) {
  size_t passed = 0;
  for (const TfdataCase& golden : read_tfdata_cases(MILLRACE_TEST_DATA "/tfdata_ops/visible.jsonl")) {
    const CaseOutcome outcome = run_tfdata_case(golden);
    EXPECT_NE(outcome.result, CaseResult::kFailed) << golden.name << ": " << outcome.difference;
    if (outcome.result == CaseResult::kPassed) ++passed;
  }
  // Grows with the operators: no case that once passed is to become one that cannot be built.
  EXPECT_EQ(passed, 111u);
}

TfdataCase changed(const std::string& key, const nlohmann::json& value) {
  nlohmann::json definition = nlohmann::json::parse(
      R"({"name":"t","pipeline":[{"op":"range","feature":"x","start":0,"stop":4,"step":1},
          {"op":"map","fn":"fail_if_mod","feature":"x","m":9,"r":2}],
          "cardinality":4,"expect":[{"x":0},{"x":1}],"error":{"after":2,"kind":"invalid_argument","at":"next"}})");
  if (!key.empty()) definition[key] = value;
  return {"t", definition};
}

TEST(TfdataCasesTest, TheComparisonFindsEveryKindOfDifference) {
  using nlohmann::json;
  const auto difference = [](const std::string& key, const json& value) {
    const CaseOutcome outcome = run_tfdata_case(changed(key, value));
    return outcome.result == CaseResult::kFailed ? outcome.difference : "none";
  };
  EXPECT_EQ(difference("", nullptr), "none");
  EXPECT_EQ(difference("expect", json::parse(R"([{"x":0},{"x":2}])")), "element 1: expected x=2, found x=1");
  EXPECT_EQ(difference("expect", json::parse(R"([{"x":0}])")), "expected error invalid_argument, found x=1");
  EXPECT_EQ(difference("cardinality", 5), "cardinality: expected 5, found 4");
  EXPECT_EQ(difference("cardinality", "unknown"), "cardinality: expected unknown, found 4");
  EXPECT_EQ(difference("error", nullptr),
            "element 2: expected the end, found error: user_function: map 'fail_if_mod': 2 % 9 is 2");
  EXPECT_EQ(difference("error", json::parse(R"({"after":2,"kind":"data_loss","at":"next"})")),
            "expected error data_loss, found error: user_function: map 'fail_if_mod': 2 % 9 is 2");
  EXPECT_EQ(difference("error", json::parse(R"({"after":2,"kind":"invalid_argument","at":"build"})")),
            "accepted; tf.data refuses to build it");
}

}  // namespace
}  // namespace millrace::test
