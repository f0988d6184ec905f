#include "millrace/ops/batch/unbatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/ops/batch/batch.h"
#include "millrace/ops/batch/ragged_batch.h"
#include "millrace/ops/batch/rebatch.h"
#include "millrace/ops/features/map.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "tests/support/operator_chain.h"

namespace millrace::unbatch_test {
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

// One block of vectors, each from a record of its own.
class Records final : public StageOperator {
 public:
  explicit Records(std::vector<std::vector<int64_t>> rows)
      : StageOperator(std::make_shared<const Schema>(
            std::vector<FeatureSpec>{{.name = "t", .dtype = DType::kInt64, .shape = {kVaries}}})),
        rows_(std::move(rows)) {}
  std::string_view name() const override { return "records"; }
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::unknown(); }
  std::unique_ptr<Stage> open(std::vector<OpenStage>, const StageContext& context) const override {
    class Run final : public Stage {
     public:
      Run(const Records& records, BufferPool& pool) : records_(records), pool_(pool) {}
      Poll next(Block& out) override {
        if (std::exchange(done_, true)) return Poll::kEnd;
        BlockBuilder builder(records_.schema(), pool_);
        const auto names = std::make_shared<ShardNames>();
        Origins origins(pool_, names, records_.rows_.size());
        for (size_t i = 0; i < records_.rows_.size(); ++i) {
          const auto length = static_cast<int64_t>(records_.rows_[i].size());
          builder.column(0).append<int64_t>(records_.rows_[i], std::array{length});
          builder.added_elements(1);
          origins.mutable_data()[i] = Origin(names->add("shard"), 10 * i, i);
        }
        out = builder.finish();
        out.set_origins(std::move(origins));
        return Poll::kBlock;
      }

     private:
      const Records& records_;
      BufferPool& pool_;
      bool done_ = false;
    };
    return std::make_unique<Run>(*this, context.pool);
  }

 private:
  std::vector<std::vector<int64_t>> rows_;
};

// As many rows in all as there are records: none may take another's place for its own.
TEST(UnbatchTest, RowsOfOneRecordComeFromItsPlace) {
  const Chain rows =
      Chain::source<Records>(Rows{{1, 2}, {}, {3}})
          .then<UnbatchOperator>()
          .then<MapRowsOperator>(RowFunction{.name = "fail", .writes = {}, .function = [](const RowView&, RowWriter&) {
                                               throw std::runtime_error("no");
                                             }});
  EXPECT_THAT(rows.elements(), ElementsAre("error: user_function: map 'fail': no (shard shard, offset 0, record 0)",
                                           "error: user_function: map 'fail': no (shard shard, offset 0, record 0)",
                                           "error: user_function: map 'fail': no (shard shard, offset 20, record 2)"));
}

TEST(UnbatchTest, CardinalityIsKnownWhereTheNumberOfRowsIs) {
  const auto of = [](const SchemaPtr& input, Cardinality of_input) {
    return UnbatchOperator(input).cardinality(std::vector<Cardinality>{of_input}).to_string();
  };
  const auto schema = [](int64_t rows) {
    return std::make_shared<const Schema>(
        std::vector<FeatureSpec>{{.name = "t", .dtype = DType::kInt64, .shape = {rows}}});
  };
  EXPECT_EQ(of(schema(3), Cardinality::known(5)), "15");
  EXPECT_EQ(of(schema(kVaries), Cardinality::known(5)), "unknown");
  EXPECT_EQ(of(schema(3), Cardinality::unknown()), "unknown");
  EXPECT_EQ(of(schema(kVaries), Cardinality::infinite()), "infinite");
  EXPECT_EQ(of(schema(3), Cardinality::known(INT64_MAX / 2)), "infinite");
}

}  // namespace
}  // namespace millrace::unbatch_test
