#include "millrace/ops/combine/zip.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/flow/shuffle.h"
#include "millrace/ops/flow/skip.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "millrace/pipeline/dataset.h"
#include "tests/support/operator_chain.h"

namespace millrace::zip_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Chain range(const std::string& feature, int64_t start, int64_t stop) {
  return Chain::source<RangeOperator>(start, stop, 1, feature);
}

Chain zip(const std::vector<Chain>& inputs) { return Chain::join<ZipOperator>(inputs); }

TEST(ZipTest, PutsElementsSideBySideUntilTheFirstInputEnds) {
  EXPECT_THAT(zip({range("x", 0, 5), range("y", 10, 13)}).elements(), ElementsAre("x=0 y=10", "x=1 y=11", "x=2 y=12"));
  EXPECT_THAT(zip({range("x", 0, 1), range("y", 5, 9), range("z", 7, 9)}).elements(), ElementsAre("x=0 y=5 z=7"));
  EXPECT_THAT(zip({range("x", 0, 5), range("y", 3, 3)}).elements(), ElementsAre());
  EXPECT_THAT(zip({range("x", 3, 5)}).elements(), ElementsAre("x=3", "x=4"));
}

TEST(ZipTest, AnErrorOnAnySideTakesThePlaceOfTheWholeElement) {
  const Chain chain = zip({Chain::source<FaultyRange>(6, std::vector<int64_t>{1, 4}),
                           Chain::source<FaultyRange>(6, std::vector<int64_t>{2, 4}, std::vector<int64_t>{}, "y")});
  EXPECT_THAT(chain.elements(),
              ElementsAre("x=0 y=0", HasSubstr("at 1"), HasSubstr("at 2"), "x=3 y=3", HasSubstr("at 4"), "x=5 y=5"));
}

TEST(ZipTest, AnErrorBesideTheEndOfALaterInputComesAndBesideThatOfAnEarlierOneDoesNot) {
  const Chain faulty = Chain::source<FaultyRange>(5, std::vector<int64_t>{2});
  EXPECT_THAT(zip({faulty, range("y", 0, 2)}).elements(), ElementsAre("x=0 y=0", "x=1 y=1", HasSubstr("at 2")));
  EXPECT_THAT(zip({range("y", 0, 2), faulty}).elements(), ElementsAre("y=0 x=0", "y=1 x=1"));
}

TEST(ZipTest, ANotePassesAndIsNobodysPart) {
  const Chain noted = Chain::source<FaultyRange>(5, std::vector<int64_t>{}, std::vector<int64_t>{0, 2});
  EXPECT_THAT(zip({noted, range("y", 0, 9)}).elements(),
              ElementsAre(HasSubstr("note at 0"), "x=1 y=0", HasSubstr("note at 2"), "x=3 y=1", "x=4 y=2"));
  EXPECT_THAT(zip({range("y", 0, 2), noted}).elements(),
              ElementsAre(HasSubstr("note at 0"), "y=0 x=1", HasSubstr("note at 2"), "y=1 x=3"));
}

TEST(ZipTest, CopiesNoValues) {
  std::vector<int64_t> numbers(3000);
  std::iota(numbers.begin(), numbers.end(), 0);
  const Chain left = Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"x", numbers}});
  // The blocks of the other end one element earlier.
  const Chain all_right = Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"y", numbers}});
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  const StageContext context{pool, waker, {}, lanes};
  const auto first_block = [&](const Chain& chain) {
    Block block;
    EXPECT_EQ(chain.opener(0)(context)->next(block), Poll::kBlock);
    return block;
  };
  const int64_t* x = first_block(left).column(0).values<int64_t>().data();
  const int64_t* y = first_block(all_right).column(0).values<int64_t>().data() + 1;
  const auto stage = zip({left, all_right.then<SkipOperator>(1)}).opener(0)(context);
  Block block;
  size_t elements = 0;
  size_t blocks = 0;
  for (; stage->next(block) == Poll::kBlock; ++blocks) {
    EXPECT_EQ(block.column("x").values<int64_t>().data(), x + elements);
    EXPECT_EQ(block.column("y").values<int64_t>().data(), y + elements);
    elements += block.num_elements();
  }
  EXPECT_EQ(elements, 2999u);
  EXPECT_EQ(blocks, 5u);
}

TEST(ZipTest, ShufflesWithOneSeedKeepTogetherWhatBelongsTogether) {
  const Chain chain = zip({range("x", 0, 200).then<ShuffleOperator>(50, ShuffleOptions{.seed = 3}),
                           range("y", 0, 200).then<ShuffleOperator>(50, ShuffleOptions{.seed = 3})});
  for (const std::string& element : chain.elements()) {
    const std::string x = element.substr(2, element.find(' ') - 2);
    EXPECT_EQ(element, "x=" + x + " y=" + x);
  }
}

TEST(ZipTest, EachInputRunsInASegmentOfItsOwn) {
  const Dataset zipped =
      Dataset::zip({Dataset::range(0, 5, 1, "x"), Dataset::range(0, 5, 1, "y").add("y", int64_t{1})});
  const std::string text = zipped.explain();
  EXPECT_THAT(text, HasSubstr("segment 0: chain [0:range] -> ring"));
  EXPECT_THAT(text, HasSubstr("segment 1: chain [1:range] -> parallel body [2:add]"));
  EXPECT_THAT(text, HasSubstr("segment 2: chain [3:zip]"));
}

TEST(ZipTest, CardinalityIsTheSmallest) {
  const auto of = [](std::vector<Cardinality> inputs) {
    return ZipOperator(std::vector<SchemaPtr>{record_schema()}).cardinality(inputs).to_string();
  };
  EXPECT_EQ(of({Cardinality::known(5), Cardinality::known(3)}), "3");
  EXPECT_EQ(of({Cardinality::infinite(), Cardinality::known(3)}), "3");
  EXPECT_EQ(of({Cardinality::infinite(), Cardinality::infinite()}), "infinite");
  EXPECT_EQ(of({Cardinality::known(0), Cardinality::unknown()}), "unknown");
}

TEST(ZipTest, RefusesEqualNamesAndNoInputs) {
  const auto error_of = [](const std::vector<Dataset>& inputs) {
    try {
      (void)Dataset::zip(inputs);
    } catch (const ErrorException& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  const Dataset x = Dataset::range(0, 5, 1, "x");
  EXPECT_EQ(error_of({x, Dataset::range(0, 5, 1, "y"), x}),
            "invalid_argument: zip: inputs 0 and 2 both have a feature 'x'");
  EXPECT_EQ(error_of({}), "invalid_argument: zip: there are no inputs");
}

}  // namespace
}  // namespace millrace::zip_test
