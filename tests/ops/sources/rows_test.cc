#include "millrace/ops/sources/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/operator_chain.h"

namespace millrace::rows_test {
namespace {

using test::Chain;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Chain rows(MemoryFeature feature) {
  return Chain::source<RowsOperator>(std::vector<MemoryFeature>{std::move(feature)});
}

std::string refusal(MemoryFeature feature) {
  try {
    (void)rows(std::move(feature));
    return "accepted";
  } catch (const ErrorException& e) {
    return e.what();
  }
}

TEST(Rows, AreScalarsAndVectorsAsTheirValuesAre) {
  EXPECT_THAT(rows({"x", std::vector<int64_t>{3, 1}}).elements(), ElementsAre("x=3", "x=1"));
  const Chain vectors = rows({"x", std::vector<std::vector<std::string>>{{"a", "b"}, {}, {"c"}}});
  EXPECT_THAT(vectors.elements(), ElementsAre("x=[a,b]", "x=[]", "x=[c]"));
  EXPECT_EQ((*vectors.schema())[0].shape, (Shape{kVaries}));
  EXPECT_EQ((*rows({"x", std::vector<std::vector<float>>{{1, 2}, {3, 4}}}).schema())[0].shape, (Shape{2}));
}

TEST(Rows, WithAShapeAreOfAnyRank) {
  const Chain cubes = rows({"x", std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8}, Shape{2, 1, 2}});
  EXPECT_THAT(cubes.elements(), ElementsAre("x=[[[1,2]],[[3,4]]]", "x=[[[5,6]],[[7,8]]]"));
  EXPECT_EQ((*cubes.schema())[0].shape, (Shape{2, 1, 2}));
  EXPECT_THAT(rows({"x", std::vector<float>{1, 2}, Shape{}}).elements(), ElementsAre("x=1", "x=2"));
  EXPECT_THAT(rows({"x", std::vector<std::string>{}, Shape{3}}).elements(), ElementsAre());
  const Chain steps = rows({"x", std::vector<std::vector<int64_t>>{{1, 2}, {}, {3, 4, 5, 6}}, Shape{kVaries, 2}});
  EXPECT_THAT(steps.elements(), ElementsAre("x=[[1,2]]", "x=[]", "x=[[3,4],[5,6]]"));
  EXPECT_EQ((*steps.schema())[0].shape, (Shape{kVaries, 2}));
  EXPECT_THAT(rows({"x", std::vector<std::vector<int64_t>>{{1, 2}, {3, 4}}, Shape{2, 1}}).elements(),
              ElementsAre("x=[[1],[2]]", "x=[[3],[4]]"));
}

TEST(Rows, WhoseShapeTheirValuesDoNotFillAreRefused) {
  const std::vector<int64_t> seven(7);
  EXPECT_THAT(refusal({"x", seven, Shape{2}}),
              HasSubstr("feature 'x' has 7 values in one vector, which its shape [2]"));
  EXPECT_THAT(refusal({"x", seven, Shape{kVaries}}), HasSubstr("does not cut into elements"));
  EXPECT_THAT(refusal({"x", seven, Shape{0}}), HasSubstr("does not cut into elements"));
  EXPECT_THAT(refusal({"x", std::vector<std::vector<int64_t>>{{1, 2}, {3}}, Shape{2}}),
              HasSubstr("has an element of 1 values, which its shape [2] cannot have"));
  EXPECT_THAT(refusal({"x", std::vector<std::vector<int64_t>>{{1, 2}}, Shape{kVaries, kVaries}}),
              HasSubstr("has an element of 2 values"));
  EXPECT_THAT(refusal({"x", seven, Shape{int64_t{1} << 30, int64_t{1} << 40}}), HasSubstr("whose sizes cannot be"));
  EXPECT_THAT(refusal({"x", seven, Shape{kRagged}}), HasSubstr("whose sizes cannot be"));
}

}  // namespace
}  // namespace millrace::rows_test
