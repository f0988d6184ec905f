#include "tests/ops/tfdata_cases.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::test::tfdata_cases_test {
namespace {

TEST(TfdataCasesTest, OperatorsAgreeWithTfData) {
  for (const std::string file : {"visible.jsonl", "found.jsonl", "edges.jsonl"}) {
    for (const TfdataCase& golden : read_tfdata_cases(test::data_path("tfdata_ops/") + file)) {
      const CaseOutcome outcome = run_tfdata_case(golden);
      EXPECT_EQ(outcome.result, CaseResult::kPassed) << golden.name << ": " << outcome.difference;
    }
  }
}

TfdataCase changed(const std::string& key, const nlohmann::json& value) {
  nlohmann::json definition = nlohmann::json::parse(
      R"({"name":"t","pipeline":[{"op":"range","feature":"x","start":0,"stop":4,"step":1},
          {"op":"map","fn":"fail_if_mod","feature":"x","m":9,"r":2}],
          "cardinality":4,"expect":[{"x":0},{"x":1}],"error":{"after":2,"kind":"invalid_argument","at":"next"}})");
  if (!key.empty()) definition[key] = value;
  return {"t", definition};
}

TEST(TfdataCasesTest, AFileThatCannotBeReadIsNamedWithItsLine) {
  const auto error_of = [](const std::string& path) {
    try {
      read_tfdata_cases(path);
    } catch (const std::runtime_error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(error_of("/no/such/file"), "cannot read /no/such/file");
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/cases.jsonl";
  const auto with_second_line = [&](const std::string& line) {
    std::ofstream(path) << changed("", nullptr).definition << '\n' << line << '\n';
    return error_of(path);
  };
  EXPECT_THAT(with_second_line("{\"name\":"), testing::StartsWith(path + ", line 2: "));
  EXPECT_THAT(with_second_line("{\"name\":\"t\"}"), testing::HasSubstr("'pipeline' not found"));
  EXPECT_EQ(with_second_line(""), "none");
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
  const CaseOutcome unknown = run_tfdata_case(changed("pipeline", json::parse(R"([{"op":"jumble"}])")));
  EXPECT_EQ(unknown.result, CaseResult::kNotYet);
  EXPECT_EQ(unknown.difference, "jumble");
  EXPECT_EQ(difference("pipeline", json::parse(R"([{"op":"range","start":0,"stop":5,"step":1}])")),
            "not of the grammar: [json.exception.out_of_range.403] key 'feature' not found");
}

}  // namespace
}  // namespace millrace::test::tfdata_cases_test
