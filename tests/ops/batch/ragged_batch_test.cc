#include "millrace/ops/batch/ragged_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/batch/batch.h"
#include "millrace/ops/batch/unbatch.h"
#include "millrace/ops/sources/rows.h"
#include "tests/support/operator_chain.h"

namespace millrace::ragged_batch_test {
namespace {

using test::Chain;
using ::testing::ElementsAre;

using Rows = std::vector<std::vector<int64_t>>;

Chain tokens(const Rows& rows) { return Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"t", rows}}); }

TEST(RaggedBatchTest, KeepsLengthsAndStacksWhatHasOneShape) {
  const Chain features = Chain::source<RowsOperator>(std::vector<MemoryFeature>{
      {"t", Rows{{1, 2}, {3}, {}}}, {"w", Rows{{1, 2}, {3, 4}, {5, 6}}}, {"x", std::vector<int64_t>{7, 8, 9}}});
  const Chain chain = features.then<RaggedBatchOperator>(2);
  EXPECT_EQ(chain.schema()->to_string(), "t int64 [?,ragged], w int64 [?,2], x int64 [?]");
  EXPECT_THAT(chain.elements(), ElementsAre("t=[[1,2],[3]] w=[[1,2],[3,4]] x=[7,8]", "t=[[]] w=[[5,6]] x=[9]"));
  EXPECT_EQ(chain.cardinality(), Cardinality::known(2));
  const Chain dropped = features.then<RaggedBatchOperator>(2, RaggedBatchOptions{.drop_remainder = true});
  EXPECT_EQ(dropped.schema()->to_string(), "t int64 [2,ragged], w int64 [2,2], x int64 [2]");
  EXPECT_EQ(dropped.cardinality(), Cardinality::known(1));
}

TEST(RaggedBatchTest, BatchesOfRaggedBatchesAreRaggedInOneDimensionMore) {
  const Chain pairs = tokens({{1, 2}, {3}, {}, {4, 5, 6}, {7}}).then<RaggedBatchOperator>(2);
  const Chain chain = pairs.then<BatchOperator>(2);
  EXPECT_EQ(chain.schema()->to_string(), "t int64 [?,ragged,ragged]");
  EXPECT_THAT(chain.elements(), ElementsAre("t=[[[1,2],[3]],[[],[4,5,6]]]", "t=[[[7]]]"));
  EXPECT_THAT(chain.then<UnbatchOperator>().then<UnbatchOperator>().elements(),
              ElementsAre("t=[1,2]", "t=[3]", "t=[]", "t=[4,5,6]", "t=[7]"));
}

}  // namespace
}  // namespace millrace::ragged_batch_test
