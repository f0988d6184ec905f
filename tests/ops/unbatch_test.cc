#include "ops/unbatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/batch.h"
#include "ops/ragged_batch.h"
#include "ops/range.h"
#include "ops/rebatch.h"
#include "ops/rows.h"
#include "tests/support/operator_chain.h"

namespace millrace {
namespace {

using test::Chain;
using test::FaultyRange;
using test::Stream;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

TEST(UnbatchTest, MakesElementsOfTheRowsOfBatches) {
  EXPECT_THAT(range(5).then<BatchOperator>(2).then<UnbatchOperator>().elements(),
              ElementsAre("x=0", "x=1", "x=2", "x=3", "x=4"));
  EXPECT_THAT(tokens({{1, 2}, {}, {3}}).then<UnbatchOperator>().elements(), ElementsAre("t=1", "t=2", "t=3"));
  EXPECT_THAT(tokens({{}, {}}).then<UnbatchOperator>().elements(), IsEmpty());
  EXPECT_THAT(tokens({{1, 2}, {3, 4}, {5, 6}}).then<BatchOperator>(2).then<UnbatchOperator>().elements(),
              ElementsAre("t=[1,2]", "t=[3,4]", "t=[5,6]"));
}

TEST(UnbatchTest, KeepsTheLengthsOfRaggedRows) {
  const Chain ragged = tokens({{1, 2}, {3}, {}, {4, 5, 6}}).then<RaggedBatchOperator>(3);
  EXPECT_THAT(ragged.elements(), ElementsAre("t=[[1,2],[3],[]]", "t=[[4,5,6]]"));
  const Chain rows = ragged.then<UnbatchOperator>();
  EXPECT_EQ(rows.schema()->to_string(), "t int64 [?]");
  EXPECT_THAT(rows.elements(), ElementsAre("t=[1,2]", "t=[3]", "t=[]", "t=[4,5,6]"));
}

TEST(UnbatchTest, ManyRowsComeInBlocksOfLimitedSize) {
  const Chain chain = range(9000).then<BatchOperator>(3000).then<UnbatchOperator>();
  const Stream stream = chain.run();
  ASSERT_EQ(stream.elements.size(), 9000u);
  EXPECT_EQ(stream.elements[8999], "x=8999");
  EXPECT_THAT(stream.rows, Each(1));
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  const auto stage = chain.opener(0)({pool, waker, {}, lanes});
  Block block;
  ASSERT_EQ(stage->next(block), Poll::kBlock);
  EXPECT_LE(block.num_elements(), kBlockElements);
}

TEST(UnbatchTest, RowsOfElementsThatAreBatchesOfBatchesStandForSeveral) {
  const Chain chain = range(12).then<BatchOperator>(2).then<BatchOperator>(3).then<UnbatchOperator>();
  EXPECT_THAT(chain.run().rows, ElementsAre(2, 2, 2, 2, 2, 2));
}

TEST(UnbatchTest, AnErrorStandsInItsPlaceAndUnlikeSizesAreOne) {
  const auto faulty = Chain::of(std::make_shared<FaultyRange>(7, std::vector<int64_t>{2, 5}));
  EXPECT_THAT(faulty.then<BatchOperator>(2).then<UnbatchOperator>().elements(),
              ElementsAre("x=0", "x=1", HasSubstr("error: parse: at 2"), "x=3", "x=4", HasSubstr("at 5"), "x=6"));
  const Chain pairs = Chain::source<RowsOperator>(
      std::vector<MemoryFeature>{{"a", Rows{{1, 2}, {3, 4}, {5}}}, {"b", Rows{{6, 7}, {8}, {9}}}});
  EXPECT_THAT(
      pairs.then<UnbatchOperator>().elements(),
      ElementsAre("a=1 b=6", "a=2 b=7", "error: wrong_shape: unbatch: feature 'a' has 2 rows, 'b' has 1", "a=5 b=9"));
}

TEST(UnbatchTest, RefusesScalars) {
  EXPECT_EQ(refusal([] { range(3).then<UnbatchOperator>(); }),
            "unbatch: feature 'x' is a scalar; each needs a dimension of rows: x int64 []");
  EXPECT_THAT(refusal([] { range(3).then<RebatchOperator>(2); }), HasSubstr("rebatch: feature 'x' is a scalar"));
}

}  // namespace
}  // namespace millrace
