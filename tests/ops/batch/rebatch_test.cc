#include "millrace/ops/batch/rebatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/batch/batch.h"
#include "millrace/ops/batch/ragged_batch.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "tests/support/operator_chain.h"

namespace millrace::rebatch_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Rows = std::vector<std::vector<int64_t>>;

Chain range(int64_t count) { return Chain::source<RangeOperator>(0, count, 1, "x"); }
Chain tokens(const Rows& rows) { return Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"t", rows}}); }

template <typename Function>
std::string refusal(Function&& function) {
  try {
    function();
  } catch (const ErrorException& e) {
    EXPECT_EQ(e.error().code, ErrorCode::kInvalidArgument);
    return e.error().message;
  }
  return "accepted";
}

TEST(RebatchTest, KnowsTheRowsOfItsBatchesWhereNoneIsCut) {
  const auto rows_of = [](const Chain& chain) { return (*chain.schema())[0].shape[0]; };
  const Chain fours = range(12).then<BatchOperator>(4, BatchOptions{.drop_remainder = true});
  EXPECT_EQ(rows_of(fours.then<RebatchOperator>(2)), 2);
  EXPECT_EQ(rows_of(fours.then<RebatchOperator>(4)), 4);
  EXPECT_EQ(rows_of(fours.then<RebatchOperator>(3)), kVaries);
  EXPECT_EQ(rows_of(fours.then<RebatchOperator>(8)), kVaries);
  EXPECT_EQ(rows_of(range(12).then<BatchOperator>(4).then<RebatchOperator>(2)), kVaries);
}

TEST(RebatchTest, JoinsAndSplitsAcrossElements) {
  EXPECT_THAT(range(7).then<BatchOperator>(3).then<RebatchOperator>(2).elements(),
              ElementsAre("x=[0,1]", "x=[2,3]", "x=[4,5]", "x=[6]"));
  EXPECT_THAT(range(7).then<BatchOperator>(2).then<RebatchOperator>(5, BatchOptions{.drop_remainder = true}).elements(),
              ElementsAre("x=[0,1,2,3,4]"));
  EXPECT_THAT(tokens({{1, 2}, {3}, {4, 5, 6}}).then<RebatchOperator>(4).elements(),
              ElementsAre("t=[1,2,3,4]", "t=[5,6]"));
  EXPECT_THAT(refusal([] { tokens({{1}}).then<RebatchOperator>(0); }), "rebatch: size must be at least 1, not 0");
}

TEST(RebatchTest, KeepsRaggedBatchesRagged) {
  const Chain ragged = tokens({{1, 2}, {3}, {}, {4, 5, 6}, {7}}).then<RaggedBatchOperator>(2);
  const Chain chain = ragged.then<RebatchOperator>(3);
  EXPECT_EQ(chain.schema()->to_string(), "t int64 [?,ragged]");
  EXPECT_THAT(chain.elements(), ElementsAre("t=[[1,2],[3],[]]", "t=[[4,5,6],[7]]"));
}

TEST(RebatchTest, LosesTheOpenRowsToAnError) {
  const auto faulty = Chain::of(std::make_shared<FaultyRange>(9, std::vector<int64_t>{4}));
  EXPECT_THAT(faulty.then<BatchOperator>(2).then<RebatchOperator>(3).elements(),
              ElementsAre("x=[0,1,2]", HasSubstr("at 4"), "x=[5,6,7]", "x=[8]"));
}

TEST(RebatchTest, RowsOfUnlikeShapesAreAnErrorWhereABatchMixesThem) {
  const Chain mixed = tokens({{1, 2}, {3, 4}, {5}, {6}}).then<BatchOperator>(2);
  EXPECT_THAT(mixed.then<RebatchOperator>(1).elements(), ElementsAre("t=[[1,2]]", "t=[[3,4]]", "t=[[5]]", "t=[[6]]"));
  EXPECT_THAT(mixed.then<RebatchOperator>(4).elements(),
              ElementsAre(HasSubstr("rebatch: feature 't' has shape [2] in the batch's first row and [1] in row 2")));
}

}  // namespace
}  // namespace millrace::rebatch_test
