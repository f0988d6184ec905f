#include "millrace/ops/flow/unique.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/batch/batch.h"
#include "millrace/ops/combine/concatenate.h"
#include "millrace/ops/features/arithmetic.h"
#include "millrace/ops/flow/digest_set.h"
#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "millrace/pipeline/dataset.h"
#include "tests/support/operator_chain.h"

namespace millrace::unique_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Value>
Chain list(std::vector<Value> values) {
  return Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"x", std::move(values)}});
}

TEST(UniqueTest, KeepsTheFirstOfEqualValues) {
  EXPECT_THAT(list<int64_t>({3, 1, 3, 2, 1, 0, 0}).then<UniqueOperator>("x").elements(),
              ElementsAre("x=3", "x=1", "x=2", "x=0"));
  EXPECT_THAT(list<std::string>({"b", "", "a", "b", ""}).then<UniqueOperator>("x").elements(),
              ElementsAre("x=b", "x=", "x=a"));
  EXPECT_THAT(list<float>({1, 0.5, 1}).then<UniqueOperator>("x").elements(), ElementsAre("x=1", "x=0.5"));
}

TEST(UniqueTest, ShapesCount) {
  using Row = std::vector<int64_t>;
  EXPECT_THAT(list<Row>({{1, 2}, {1}, {1, 2}, {}, {2, 1}, {}, {0}, {0, 0}}).then<UniqueOperator>("x").elements(),
              ElementsAre("x=[1,2]", "x=[1]", "x=[]", "x=[2,1]", "x=[0]", "x=[0,0]"));
  using Words = std::vector<std::string>;
  EXPECT_THAT(list<Words>({{"ab", "c"}, {"a", "bc"}, {"ab", "c"}, {"abc"}, {}}).then<UniqueOperator>("x").elements(),
              ElementsAre("x=[ab,c]", "x=[a,bc]", "x=[abc]", "x=[]"));
}

TEST(UniqueTest, WhetherABlockHasOneShapeDoesNotCount) {
  const Chain one_shape = Chain::source<RangeOperator>(0, 4, 1, "x").then<BatchOperator>(2);
  const Chain two_shapes = list<std::vector<int64_t>>({{0, 1}, {4}, {2, 3}});
  EXPECT_THAT(Chain::join<ConcatenateOperator>({one_shape, two_shapes}).then<UniqueOperator>("x").elements(),
              ElementsAre("x=[0,1]", "x=[2,3]", "x=[4]"));
}

TEST(UniqueTest, OtherFeaturesStayWithTheFirst) {
  const Chain pairs = Chain::source<RowsOperator>(
      std::vector<MemoryFeature>{{"x", std::vector<int64_t>{1, 2, 1}}, {"y", std::vector<int64_t>{10, 20, 30}}});
  EXPECT_THAT(pairs.then<UniqueOperator>("x").elements(), ElementsAre("x=1 y=10", "x=2 y=20"));
}

TEST(UniqueTest, ErrorsPassAndEachIterationBeginsAnew) {
  const Chain input = Chain::source<FaultyRange>(5, std::vector<int64_t>{1}, std::vector<int64_t>{2});
  EXPECT_THAT(input.then<ArithmeticOperator>("x", Arithmetic::kModulo, int64_t{3}).then<UniqueOperator>("x").elements(),
              ElementsAre("x=0", HasSubstr("at 1"), HasSubstr("note at 2"), "x=1"));
  const Chain range = Chain::source<RangeOperator>(0, 2, 1, "x");
  EXPECT_THAT(range.then<UniqueOperator>("x").then<RepeatOperator>(2).elements(),
              ElementsAre("x=0", "x=1", "x=0", "x=1"));
  EXPECT_THAT(range.then<RepeatOperator>(2).then<UniqueOperator>("x").elements(), ElementsAre("x=0", "x=1"));
}

TEST(UniqueTest, AnEndlessInputWithoutNewValuesLetsOthersRun) {
  const Chain endless = Chain::source<RangeOperator>(0, 2, 1, "x").then<RepeatOperator>(-1);
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  const auto stage = endless.then<UniqueOperator>("x").opener(0)({pool, waker, {}, lanes});
  Block block;
  EXPECT_EQ(stage->next(block), Poll::kBlock);
  EXPECT_EQ(stage->next(block), Poll::kPending);
  EXPECT_GT(waker.wakes, 0);
}

TEST(UniqueTest, MoreValuesThanTheMemoryBudgetAllowsAreAnErrorInTheirPlace) {
  // A table of 16 B places, made twice as large from 512 KiB on, would take more than 768 KiB with the one before.
  const Dataset values = Dataset::range(0, 100000, 1, "x").unique("x");
  Pipeline pipeline = values.start({.threads = 1, .memory_budget = 1 << 20});
  int64_t count = 0;
  try {
    while (pipeline.next()) ++count;
    ADD_FAILURE() << "no error";
  } catch (const ErrorException& e) {
    EXPECT_EQ(e.error().code, ErrorCode::kMemoryBudget);
    EXPECT_THAT(e.what(), HasSubstr("with 24576 values seen, their table of 524288 bytes"));
  }
  EXPECT_EQ(count, 24576);
}

TEST(UniqueTest, RefusesAFeatureThatIsNotThere) {
  EXPECT_THROW(list<int64_t>({1}).then<UniqueOperator>("y"), ErrorException);
}

TEST(DigestSetTest, KnowsWhatIsInItHoweverItGrows) {
  BufferPool pool;
  DigestSet set(pool, INT64_MAX);
  // Digests that meet in one place, the empty one among them.
  const auto digest = [](uint64_t i) { return Digest{(i % 7) << 40, i / 7}; };
  for (uint64_t i = 0; i < 20000; ++i) {
    ASSERT_EQ(set.insert(digest(i)), DigestSet::Insert::kNew) << i;
    ASSERT_EQ(set.insert(digest(i / 2)), DigestSet::Insert::kThere) << i;
  }
  EXPECT_EQ(set.size(), 20000u);
  EXPECT_EQ(set.bytes(), 16 * 32768);
  EXPECT_GE(pool.bytes_in_use(), set.bytes());
}

TEST(DigestSetTest, IsFullWhereItsMemoryEnds) {
  BufferPool pool;
  DigestSet set(pool, 3 * 16 * 1024);
  uint64_t count = 0;
  while (set.insert({count, 5}) == DigestSet::Insert::kNew) ++count;
  EXPECT_EQ(count, 1536u);
  EXPECT_EQ(set.insert({0, 5}), DigestSet::Insert::kThere);
  EXPECT_EQ(set.insert({count, 5}), DigestSet::Insert::kFull);
}

}  // namespace
}  // namespace millrace::unique_test
