#include "millrace/ops/batch/padded_parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/formats/example/writer.h"

namespace millrace::padded_parse_test {
namespace {

using ::testing::ElementsAre;

std::string record_of(const std::vector<int64_t>& tokens) {
  ExampleWriter writer;
  writer.add("tokens", std::span<const int64_t>(tokens));
  return std::string(writer.finish());
}

// What streams it gives is tested with the rewrite that it belongs to (tests/pipeline/plan/defer_parse_test.cc);
// here, that it gives any.
class PaddedParseTest : public testing::Test {
 protected:
  std::optional<Block> parsed(const std::vector<std::string>& records, size_t rows, int64_t budget = INT64_MAX) {
    const auto schema = std::make_shared<const Schema>(
        std::vector<FeatureSpec>{{.name = "record", .dtype = DType::kBytes, .shape = {}}});
    BlockBuilder builder(schema, pool_);
    for (const std::string& record : records) {
      builder.column(0).append_view(record);
      builder.added_elements(1);
    }
    const auto parsed_schema = std::make_shared<const Schema>(parser_.columns());
    const Padding padding("padded_batch", parsed_schema, {.value = -1});
    const PaddedParse parse(parser_, padding.rules(), padding.schema(kVaries), pool_, budget);
    return parse(builder.finish(), rows);
  }

  BufferPool pool_;
  const ExampleParser parser_{{var_len("tokens", DType::kInt64).as(DType::kInt32),
                               fixed_len("label", {1}, DType::kInt64).default_value(std::vector<int64_t>{9})}};
};

TEST_F(PaddedParseTest, PlainRecordsAreDecodedAtOnce) {
  ASSERT_TRUE(PaddedParse::takes(parser_));
  const auto batches = parsed({record_of({1, 2, 300}), record_of({}), record_of({-1}), record_of({70000})}, 2);
  ASSERT_TRUE(batches);
  ASSERT_EQ(batches->num_elements(), 2U);
  EXPECT_EQ(batches->column(0).shape(0), (Shape{2, 3}));
  EXPECT_THAT(batches->column(0).values<int32_t>(0), ElementsAre(1, 2, 300, -1, -1, -1));
  EXPECT_EQ(batches->column(0).shape(1), (Shape{2, 1}));
  EXPECT_THAT(batches->column(0).values<int32_t>(1), ElementsAre(-1, 70000));
  EXPECT_THAT(batches->column(1).values<int64_t>(1), ElementsAre(9, 9));
}

TEST_F(PaddedParseTest, OthersAreLeftToThoseWhoParseFirst) {
  const std::string good = record_of({1, 2, 3});
  EXPECT_TRUE(parsed({good, good}, 2));
  EXPECT_FALSE(parsed({good, "this is text"}, 2));
  EXPECT_FALSE(parsed({good, record_of({int64_t{1} << 31})}, 2)) << "no int32";
  EXPECT_TRUE(parsed({good, good}, 2, /*budget=*/24));
  EXPECT_FALSE(parsed({good, good}, 2, /*budget=*/23));
  EXPECT_FALSE(PaddedParse::takes(ExampleParser({var_len("tokens", DType::kBytes)})));
  EXPECT_FALSE(PaddedParse::takes(ExampleParser({fixed_len("matrix", {2, 2}, DType::kFloat32)})));
}

}  // namespace
}  // namespace millrace::padded_parse_test
