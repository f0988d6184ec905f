#include "tests/ops/parse_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/example_parsing.h"
#include "tests/support/places.h"

namespace millrace::test::parse_cases_test {
namespace {

using ::testing::HasSubstr;

TEST(ParseCases, AgreeWithTensorFlow) {
  int count = 0;
  for (const nlohmann::json& golden : read_json_lines(test::data_path("parse_example/cases.jsonl"))) {
    EXPECT_EQ(run_parse_case(golden), "") << golden.at("name");
    ++count;
  }
  EXPECT_EQ(count, 619);
}

// The difference that is found when parts of the case `name` are replaced.
std::string difference(const std::string& name, const std::map<std::string, std::string>& changes) {
  static const std::vector<nlohmann::json> kCases = read_json_lines(test::data_path("parse_example/cases.jsonl"));
  for (nlohmann::json golden : kCases) {
    if (golden.at("name") != name) continue;
    for (const auto& [key, value] : changes) {
      golden[nlohmann::json::json_pointer(key)] = nlohmann::json::parse(value);
    }
    return run_parse_case(golden);
  }
  return "no such case";
}

TEST(ParseCases, EveryKindOfDifferenceIsFound) {
  const std::string simple = "duplicate_key_last_no_kind_fixed";  // the answer is 1
  EXPECT_EQ(difference(simple, {}), "");
  EXPECT_EQ(difference(simple, {{"/expect/a/values", "[2]"}}), "a: expected [2], found [1]");
  EXPECT_EQ(difference(simple, {{"/expect/a/shape", "[1,1]"}}), "a: expected [1] of sizes [1, 1], found [1]");
  EXPECT_EQ(difference(simple, {{"/protobuf_accepts", "[false]"}}),
            "record 0: expected an error, found [1] of sizes [] ");
  EXPECT_EQ(difference(simple, {{"/protobuf_differs", R"([{"record":0}])"}}),
            "record 0: expected an error, found [1] of sizes [] ");
  EXPECT_EQ(difference(simple, {{"/error", R"({"by":"python","message":"no"})"}}),
            "expected the description to be refused: no");
  EXPECT_THAT(difference(simple, {{"/spec/a/dtype", R"("float")"}, {"/spec/a/default", R"(["3f800000"])"}}),
              HasSubstr("feature 'a' holds int64, expected float32"));
  EXPECT_THAT(difference(simple, {{"/spec/a/default", "[1,2]"}}), HasSubstr("the default has 2 values"));
  EXPECT_THAT(difference(simple, {{"/spec/a/shape", "[2]"}, {"/spec/a/default", "[1,2]"}}), HasSubstr("has 1 values"));

  EXPECT_THAT(difference("varlen_int64", {{"/expect/a/row_lengths", "[12,0,0,1,2]"}}), HasSubstr("expected"));
  EXPECT_THAT(difference("fseq_default_int64", {{"/expect/a/values/1", "5"}}), HasSubstr("a: expected"));
  EXPECT_THAT(difference("ragged_row_lengths", {{"/expect/r/row_splits/1", "[0,1,2,3,4]"}}), HasSubstr("r: expected"));
  EXPECT_THAT(difference("ragged_row_lengths", {{"/expect/r/row_splits/1", "[0,1,2,3,5]"}}),
              HasSubstr("expected an error"));
  EXPECT_THAT(difference("ragged_uniform", {{"/expect/r/flat_shape", "[3,3]"}}), HasSubstr("r: expected"));
  EXPECT_THAT(difference("ragged_uniform_then_lengths", {{"/expect/r/uniform_row_lengths/1", "3"}}),
              HasSubstr("uniform rows that are none"));
  EXPECT_THAT(difference("sparse_two_keys", {{"/expect/s/indices/0", "[0,1,4]"}}), HasSubstr("s: expected"));
  EXPECT_THAT(difference("sparse_two_keys", {{"/expect/s/dense_shape", "[2,4,6]"}}), HasSubstr("dense shape"));
  EXPECT_THAT(difference("seq_varlen_int64", {{"/expect/feature_lists/l/indices/0", "[0,0,1]"}}),
              HasSubstr("l: indices"));
  EXPECT_THAT(difference("seq_varlen_int64", {{"/expect/feature_lists/l/dense_shape", "[3,3,4]"}}),
              HasSubstr("l: shape"));
  EXPECT_THAT(difference("seq_dense_int64", {{"/expect/lengths/l", "[3,0,4]"}}), HasSubstr("number of steps"));
  EXPECT_THAT(difference("int_two_packed_chunks", {{"/protobuf_differs", "[]"}}), HasSubstr("expected [1, 2, -3]"));
  EXPECT_THAT(difference("unknown_varint_in_feature", {{"/protobuf_accepts", "[false]"}}),
              HasSubstr("expected an error"));
}

}  // namespace
}  // namespace millrace::test::parse_cases_test
