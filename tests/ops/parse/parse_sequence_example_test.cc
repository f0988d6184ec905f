#include "millrace/ops/parse/parse_sequence_example.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/example_messages.h"
#include "tests/support/operator_chain.h"

namespace millrace::parse_sequence_example_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Label n; n frames of two values; a list of words for each step, one more in each.
std::string record_of(int n) {
  example::SequenceExample message;
  (*message.mutable_context()->mutable_feature())["label"].mutable_int64_list()->add_value(n);
  auto& lists = *message.mutable_feature_lists()->mutable_feature_list();
  for (int step = 0; step < n; ++step) {
    auto* frame = lists["frames"].add_feature()->mutable_float_list();
    frame->add_value(static_cast<float>(step));
    frame->add_value(static_cast<float>(n));
    auto* words = lists["words"].add_feature()->mutable_bytes_list();
    for (int i = 0; i < step; ++i) words->add_value(std::to_string(10 * n + i));
  }
  return message.SerializeAsString();
}

ParseSequenceExampleOperator parser(const SchemaPtr& input) {
  return {
      input,
      {fixed_len("label", {}, DType::kInt64).as(DType::kInt32)},
      {fixed_len_sequence("frames", {2}, DType::kFloat32, {.allow_missing = true}), var_len("words", DType::kBytes)}};
}

Block block_of(const std::vector<std::string>& records, BufferPool& pool) {
  Column column = Column::fixed(pool, DType::kBytes, {}, records.size());
  for (size_t i = 0; i < records.size(); ++i) column.mutable_values<std::string_view>(i)[0] = records[i];
  return {record_schema(), {column}, records.size()};
}

std::vector<std::string> printed(const Block& block) {
  std::vector<std::string> elements;
  for (size_t i = 0; i < block.num_elements(); ++i) elements.push_back(test::print_element(block, i));
  return elements;
}

TEST(ParseSequenceExample, StepsAreTheFirstDimensionOfTheirColumns) {
  BufferPool pool;
  const ParseSequenceExampleOperator parse = parser(record_schema());
  EXPECT_EQ(parse.schema()->to_string(), "label int32 [], frames float32 [?,2], words bytes [?,ragged]");
  const std::vector<std::string> records{record_of(2), record_of(0), record_of(3)};
  EXPECT_THAT(printed(parse.apply(block_of(records, pool), pool)),
              ElementsAre("label=2 frames=[[0,2],[1,2]] words=[[],[20]]", "label=0 frames=[] words=[]",
                          "label=3 frames=[[0,3],[1,3],[2,3]] words=[[],[30],[30,31]]"));
}

TEST(ParseSequenceExample, BehindABatchStepsArePaddedOrRagged) {
  BufferPool pool;
  const std::vector<std::string> records{record_of(2), record_of(1)};
  const auto schema = std::make_shared<const Schema>(
      std::vector<FeatureSpec>{{.name = "record", .dtype = DType::kBytes, .shape = {2}}});
  Block batch(schema, {block_of(records, pool).column(0).grouped(2)}, 1);
  batch.rows_per_element = 2;
  const ParseSequenceExampleOperator parse = parser(schema);
  EXPECT_EQ(parse.schema()->to_string(), "label int32 [2], frames float32 [2,?,2], words bytes [2,ragged,ragged]");
  EXPECT_THAT(printed(parse.apply(batch, pool)),
              ElementsAre("label=[2,1] frames=[[[0,2],[1,2]],[[0,1],[0,0]]] words=[[[],[20]],[[]]]"));
}

TEST(ParseSequenceExample, ElementsMayHaveUnlikeNumbersOfRecords) {
  BufferPool pool;
  const std::vector<std::string> records{record_of(2), record_of(1), record_of(0)};
  const auto schema = std::make_shared<const Schema>(
      std::vector<FeatureSpec>{{.name = "record", .dtype = DType::kBytes, .shape = {kVaries}}});
  const Block each = block_of(records, pool);
  BlockBuilder builder(schema, pool);
  const std::span<const std::string_view> views = each.column(0).values<std::string_view>();
  for (const int64_t count : {2, 0, 3}) {
    builder.column(0).append(views.first(static_cast<size_t>(count)), std::vector<int64_t>{count});
    builder.added_elements(1);
  }
  const Block rows = builder.finish();
  EXPECT_THAT(
      printed(parser(schema).apply(rows, pool)),
      ElementsAre("label=[2,1] frames=[[[0,2],[1,2]],[[0,1],[0,0]]] words=[[[],[20]],[[]]]",
                  "label=[] frames=[] words=[]",
                  "label=[2,1,0] frames=[[[0,2],[1,2]],[[0,1],[0,0]],[[0,0],[0,0]]] words=[[[],[20]],[[]],[]]"));
}

TEST(ParseSequenceExample, ErrorsNameTheFeatureAndTheStep) {
  const auto refusal = [](const std::vector<FeatureDescription>& lists, const std::string& record) {
    BufferPool pool;
    const ParseSequenceExampleOperator parse(record_schema(), {}, lists);
    return printed(parse.apply(block_of({record}, pool), pool))[0];
  };
  EXPECT_EQ(refusal({fixed_len_sequence("frames", {3}, DType::kFloat32)}, record_of(2)),
            "error: wrong_shape: feature 'frames': step 0 has 2 values, shape [3] needs 3 (stage "
            "parse_sequence_example)");
  EXPECT_EQ(refusal({fixed_len_sequence("faces", {3}, DType::kFloat32)}, record_of(2)),
            "error: missing_feature: feature list 'faces' is not in the record (stage parse_sequence_example)");
  EXPECT_THAT(refusal({var_len("words", DType::kInt64)}, record_of(2)),
              HasSubstr("parse: feature 'words' holds bytes, expected int64 at byte"));
  EXPECT_THAT(refusal({var_len("words", DType::kBytes)}, record_of(2).substr(0, 30)), HasSubstr("parse: a length of"));
}

TEST(ParseSequenceExample, RefusesDescriptionsThatCannotWork) {
  const auto refusal = [](const std::vector<FeatureDescription>& context,
                          const std::vector<FeatureDescription>& lists) {
    try {
      const ParseSequenceExampleOperator parse(record_schema(), context, lists);
      return parse.schema()->to_string();
    } catch (const ErrorException& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refusal({var_len("a", DType::kInt64)}, {}), "a int64 [?]");
  EXPECT_THAT(refusal({}, {}), HasSubstr("no features are asked for"));
  EXPECT_EQ(
      refusal({var_len("a", DType::kInt32)}, {}),
      "invalid_argument: parse_sequence_example: feature 'a': records store int64, float32 or bytes; use kInt64 and "
      ".as(kInt32)");
  EXPECT_THAT(refusal({fixed_len_sequence("a", {}, DType::kInt64)}, {}), HasSubstr("a sequence is a feature list"));
  EXPECT_THAT(refusal({}, {fixed_len("a", {}, DType::kInt64)}), HasSubstr("a feature list is a fixed_len_sequence"));
  EXPECT_THAT(refusal({}, {sparse("s", {"i"}, "v", DType::kInt64, {9})}),
              HasSubstr("sparse features are for Examples"));
  EXPECT_THAT(refusal({}, {fixed_len_sequence("a", {}, DType::kInt64).default_value(std::vector<int64_t>{1})}),
              HasSubstr("a feature list has no default"));
  EXPECT_THAT(refusal({var_len("a", DType::kInt64)}, {var_len("a", DType::kInt64)}), HasSubstr("'a' occurs twice"));
  EXPECT_EQ(refusal({var_len("a", DType::kInt64)}, {var_len("a", DType::kInt64).named("b")}),
            "a int64 [?], b int64 [?,ragged]");
}

}  // namespace
}  // namespace millrace::parse_sequence_example_test
