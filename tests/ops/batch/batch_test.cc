#include "millrace/ops/batch/batch.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/batch/padded_batch.h"
#include "millrace/ops/features/map.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "tests/support/operator_chain.h"

namespace millrace::batch_test {
namespace {

using test::Chain;
using test::FaultyRange;
using test::Stream;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Chain range(int64_t count) { return Chain::source<RangeOperator>(0, count, 1, "x"); }
Chain tokens(const std::vector<std::vector<int64_t>>& rows) {
  return Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"tokens", rows}});
}

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

TEST(BatchTest, GathersElementsAndKeepsOrDropsTheRemainder) {
  EXPECT_THAT(range(7).then<BatchOperator>(3).elements(), ElementsAre("x=[0,1,2]", "x=[3,4,5]", "x=[6]"));
  EXPECT_THAT(range(7).then<BatchOperator>(3, BatchOptions{.drop_remainder = true}).elements(),
              ElementsAre("x=[0,1,2]", "x=[3,4,5]"));
  EXPECT_THAT(range(2).then<BatchOperator>(5).elements(), ElementsAre("x=[0,1]"));
  EXPECT_THAT(range(2).then<BatchOperator>(5, BatchOptions{.drop_remainder = true}).elements(), IsEmpty());
  EXPECT_THAT(range(0).then<BatchOperator>(5).elements(), IsEmpty());
}

TEST(BatchTest, ManyBatchesKeepTheirOrderOverBlocks) {
  for (const int64_t size : {1, 3, 63, 64, 65, 128, 1000, 1024, 1500}) {
    const auto elements = range(5000).then<BatchOperator>(size).elements();
    ASSERT_EQ(elements.size(), static_cast<size_t>((5000 + size - 1) / size));
    int64_t next = 0;
    for (const std::string& element : elements) {
      std::string expected = "x=[";
      for (int64_t i = 0; i < size && next < 5000; ++i) {
        if (i > 0) expected += ',';
        expected += std::to_string(next++);
      }
      ASSERT_EQ(element, expected + "]");
    }
  }
}

TEST(BatchTest, SmallBatchesShareABlock) {
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  const Chain chain = range(10000).then<BatchOperator>(10);
  const auto stage = chain.opener(0)({pool, waker, {}, lanes});
  Block block;
  ASSERT_EQ(stage->next(block), Poll::kBlock);
  EXPECT_GE(block.num_elements(), 100u);
  EXPECT_EQ(block.rows_per_element, 10);
}

TEST(BatchTest, KeepsNoBufferLongerThanTheBatchesThatNeedIt) {
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  // Records whose blocks never end with a batch, so that rows are carried over all the time.
  class Records final : public Stage {
   public:
    explicit Records(BufferPool& buffers) : pool_(buffers) {}
    Poll next(Block& out) override {
      BlockBuilder builder(record_schema(), pool_);
      const std::string payload(1000, 'x');
      for (int i = 0; i < 50; ++i) builder.column(0).append_view(builder.column(0).store(payload));
      builder.added_elements(50);
      out = builder.finish();
      return Poll::kBlock;
    }

   private:
    BufferPool& pool_;
  };
  const OpenStage open = [](const StageContext& context) { return std::make_unique<Records>(context.pool); };
  const auto stage = BatchOperator(record_schema(), 64).open({open}, {pool, waker, {}, lanes});
  Block block;
  for (int i = 0; i < 200; ++i) ASSERT_EQ(stage->next(block), Poll::kBlock);
  EXPECT_LT(pool.bytes_in_use(), 2 << 20);
}

TEST(BatchTest, BatchesOfBatchesHaveOneMoreDimensionAndMultiplyTheirRows) {
  const Chain chain = range(12).then<BatchOperator>(2).then<BatchOperator>(3);
  EXPECT_THAT(chain.elements(), ElementsAre("x=[[0,1],[2,3],[4,5]]", "x=[[6,7],[8,9],[10,11]]"));
  EXPECT_THAT(chain.run().rows, ElementsAre(6, 6));
}

TEST(BatchTest, UnlikeShapesAreAnErrorThatNamesFeatureAndBothShapes) {
  const auto elements = tokens({{1, 2}, {3, 4}, {5}, {6, 7}, {8}, {9}}).then<BatchOperator>(2).elements();
  ASSERT_EQ(elements.size(), 3u);
  EXPECT_EQ(elements[0], "tokens=[[1,2],[3,4]]");
  EXPECT_THAT(elements[1], HasSubstr("feature 'tokens' has shape [1] in the batch's first row and [2] in row 1"));
  EXPECT_EQ(elements[2], "tokens=[[8],[9]]");
}

TEST(BatchTest, AShortBatchBesideAFullOneIsAnError) {
  const auto elements = range(7).then<BatchOperator>(2).then<BatchOperator>(2).elements();
  ASSERT_EQ(elements.size(), 2u);
  EXPECT_THAT(elements[1], HasSubstr("has shape [2] in the batch's first row and [1]"));
}

TEST(BatchTest, EachBatchMayHaveItsOwnWidth) {
  EXPECT_THAT(tokens({{1, 2}, {3, 4}, {5}, {6}}).then<BatchOperator>(2).elements(),
              ElementsAre("tokens=[[1,2],[3,4]]", "tokens=[[5],[6]]"));
  EXPECT_THAT(tokens({{}, {}, {}}).then<BatchOperator>(2).elements(), ElementsAre("tokens=[[],[]]", "tokens=[[]]"));
}

TEST(BatchTest, AnErrorLosesTheOpenBatchAndGoesOutInItsPlace) {
  const Chain faulty = Chain::source<FaultyRange>(12, std::vector<int64_t>{1, 5, 9});
  const Chain chain = faulty.then<BatchOperator>(3);
  EXPECT_THAT(chain.elements(), ElementsAre("error: parse: at 1", "x=[2,3,4]", "error: parse: at 5", "x=[6,7,8]",
                                            "error: parse: at 9", "x=[10,11]"));
  EXPECT_THAT(chain.run().rows, ElementsAre(3, 3, 3, 3, 3, 2));
}

TEST(BatchTest, RefusesASizeBelowOne) {
  EXPECT_EQ(refusal([] { range(3).then<BatchOperator>(0); }), "batch: size must be at least 1, not 0");
  EXPECT_EQ(refusal([] { range(3).then<PaddedBatchOperator>(-2); }), "padded_batch: size must be at least 1, not -2");
}

TEST(BatchTest, CardinalityCountsTheShortBatchUnlessItIsDropped) {
  EXPECT_EQ(range(7).then<BatchOperator>(3).cardinality(), Cardinality::known(3));
  EXPECT_EQ(range(7).then<BatchOperator>(3, BatchOptions{.drop_remainder = true}).cardinality(), Cardinality::known(2));
  EXPECT_EQ(range(6).then<PaddedBatchOperator>(3).cardinality(), Cardinality::known(2));
}

TEST(PaddedBatchTest, PadsToTheLongestOfTheBatch) {
  EXPECT_THAT(tokens({{1, 2}, {3}, {}, {4, 5, 6}, {7, 8}, {9}})
                  .then<PaddedBatchOperator>(4, PaddedBatchOptions{.value = -1})
                  .elements(),
              ElementsAre("tokens=[[1,2,-1],[3,-1,-1],[-1,-1,-1],[4,5,6]]", "tokens=[[7,8],[9,-1]]"));
}

TEST(BatchTest, BlocksAreCutByWhatRowsBecome) {
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  const StageContext context{pool, waker, {}, lanes};
  // 256 KiB are two batches of four rows of 32 KiB, and a batch may be more.
  for (const auto& [row_bytes, batches] : {std::pair{0, 25U}, {32 << 10, 2U}, {1 << 20, 1U}}) {
    const auto stage = range(100).then<BatchOperator>(4, BatchOptions{}, nullptr, row_bytes).opener(0)(context);
    Block block;
    ASSERT_EQ(stage->next(block), Poll::kBlock);
    EXPECT_EQ(block.num_elements(), batches) << row_bytes;
  }
}

TEST(PaddedBatchTest, BlocksAreCutByWhatBatchesTakeOnceTheyAreMade) {
  // Batches of 64 rows, of 100 values apart from one of 1,000: 512 KB each; and of rows of 10 values: 5 KB each.
  for (const size_t longest : {1000, 10}) {
    std::vector<std::vector<int64_t>> rows(6400, std::vector<int64_t>(std::min<size_t>(longest, 100), 7));
    for (size_t i = 0; i < rows.size(); i += 64) rows[i].resize(longest, 7);
    BufferPool pool;
    test::CountingWaker waker;
    InlineLanes lanes;
    StageContext context{pool, waker, {}, lanes};
    context.assembles_later = true;
    const auto stage = tokens(rows).then<PaddedBatchOperator>(64).opener(0)(context);
    std::vector<size_t> batches;
    Block block;
    // What a batch takes is not known before one is made.
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(stage->next(block), Poll::kBlock);
      batches.push_back(block.num_elements());
    }
    block = std::move(block).assembled();
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(stage->next(block), Poll::kBlock);
      batches.push_back(block.num_elements());
    }
    EXPECT_THAT(batches, longest == 10 ? ElementsAre(1, 1, 1, 13, 16, 16) : ElementsAre(1, 1, 1, 1, 1, 1));
  }
}

TEST(PaddedBatchTest, PadsToAFixedLengthAndReportsALongerRow) {
  const Chain rows = tokens({{1, 2}, {3}, {}, {4, 5, 6}, {7, 8}, {9}});
  const Chain padded = rows.then<PaddedBatchOperator>(2, PaddedBatchOptions{.length = PadLength::fixed(2)});
  const auto elements = padded.elements();
  ASSERT_EQ(elements.size(), 3u);
  EXPECT_EQ(elements[0], "tokens=[[1,2],[3,0]]");
  EXPECT_THAT(elements[1], HasSubstr("wrong_shape: padded_batch: feature 'tokens' has 3 values in row 1 of the batch, "
                                     "more than length 2"));
  EXPECT_EQ(elements[2], "tokens=[[7,8],[9,0]]");
  EXPECT_EQ((*padded.schema())[0].shape, (Shape{kVaries, 2}));
}

TEST(PaddedBatchTest, PadsUpToAMultiple) {
  EXPECT_THAT(
      tokens({{1, 2}, {3}, {1, 2, 3, 4, 5}, {4}, {}, {}})
          .then<PaddedBatchOperator>(2, PaddedBatchOptions{.length = PadLength::multiple_of(4), .value = 9})
          .elements(),
      ElementsAre("tokens=[[1,2,9,9],[3,9,9,9]]", "tokens=[[1,2,3,4,5,9,9,9],[4,9,9,9,9,9,9,9]]", "tokens=[[],[]]"));
}

TEST(PaddedBatchTest, PadsEachFeatureByItsOwnRuleAndStacksScalars) {
  const Chain rows = Chain::source<RowsOperator>(
      std::vector<MemoryFeature>{{"ids", std::vector<std::vector<int32_t>>{{1}, {2, 3}}},
                                 {"mask", std::vector<std::vector<int64_t>>{{1}, {1, 1}}},
                                 {"scores", std::vector<std::vector<float>>{{0.5F, 1.5F}, {2.5F}}},
                                 {"words", std::vector<std::vector<std::string>>{{"a"}, {"bc", "d"}}},
                                 {"label", std::vector<int64_t>{7, 8}}});
  const Chain padded = rows.then<PaddedBatchOperator>(
      2, PaddedBatchOptions{.value = 3,
                            .features = {{"ids", {.length = PadLength::fixed(3), .value = 1}},
                                         {"scores", {.value = -1.5}},
                                         {"words", {.length = PadLength::multiple_of(3), .value = "<pad>"}}}});
  EXPECT_THAT(padded.elements(), ElementsAre("ids=[[1,1,1],[2,3,1]] mask=[[1,3],[1,1]] scores=[[0.5,1.5],[2.5,-1.5]] "
                                             "words=[[a,<pad>,<pad>],[bc,d,<pad>]] label=[7,8]"));
}

TEST(PaddedBatchTest, PadsMatricesInEveryDimension) {
  EXPECT_THAT(tokens({{1, 2}, {3}, {}, {4, 5, 6}, {7, 8}, {9}})
                  .then<PaddedBatchOperator>(2)
                  .then<PaddedBatchOperator>(2, PaddedBatchOptions{.value = -5})
                  .elements(),
              ElementsAre("tokens=[[[1,2,-5],[3,0,-5]],[[0,0,0],[4,5,6]]]", "tokens=[[[7,8],[9,0]]]"));
}

TEST(PaddedBatchTest, ALengthIsForTheOutermostSizeThatVaries) {
  // Frames of two values: 3, 1, 2 and 4 of them.
  const Chain frames = tokens({{1, 2, 3}, {4}, {5, 6}, {7, 8, 9, 10}})
                           .then<MapRowsOperator>(RowFunction{
                               .name = "frames",
                               .writes = {{.name = "frames", .dtype = DType::kInt64, .shape = {kVaries, 2}},
                                          {.name = "image", .dtype = DType::kInt64, .shape = {2, 1}}},
                               .function =
                                   [](const RowView& row, RowWriter& out) {
                                     const auto tokens = row.values<int64_t>("tokens");
                                     const auto to = out.make<int64_t>(
                                         "frames", std::vector<int64_t>{static_cast<int64_t>(tokens.size()), 2});
                                     for (size_t i = 0; i < to.size(); ++i) to[i] = tokens[i / 2];
                                     out.set_values("image", std::span<const int64_t>(std::array<int64_t, 2>{1, 2}),
                                                    std::vector<int64_t>{2, 1});
                                   },
                               .keep_others = false});
  const Chain fixed = frames.then<PaddedBatchOperator>(2, PaddedBatchOptions{.length = PadLength::fixed(3)});
  EXPECT_EQ(fixed.op().schema()->to_string(), "frames int64 [?,3,2], image int64 [?,2,1]");
  EXPECT_THAT(fixed.elements(),
              ElementsAre("frames=[[[1,1],[2,2],[3,3]],[[4,4],[0,0],[0,0]]] image=[[[1],[2]],[[1],[2]]]",
                          HasSubstr("wrong_shape: padded_batch: feature 'frames' has the shape [4,2] in row 1 of the "
                                    "batch, more than length 3")));
  EXPECT_THAT(frames.then<PaddedBatchOperator>(1, PaddedBatchOptions{.length = PadLength::multiple_of(2)}).elements(),
              ElementsAre(HasSubstr("frames=[[[1,1],[2,2],[3,3],[0,0]]] "), HasSubstr("frames=[[[4,4],[0,0]]] "),
                          HasSubstr("frames=[[[5,5],[6,6]]] "), HasSubstr("frames=[[[7,7],[8,8],[9,9],[10,10]]] ")));
  const Chain own = frames.then<PaddedBatchOperator>(
      4, PaddedBatchOptions{.features = {{"frames", {.length = PadLength::fixed(5), .value = -1}}}});
  EXPECT_EQ(own.op().schema()->to_string(), "frames int64 [?,5,2], image int64 [?,2,1]");
  EXPECT_THAT(own.elements(), ElementsAre(HasSubstr("[[4,4],[-1,-1],[-1,-1],[-1,-1],[-1,-1]]")));
  // Of several sizes that vary the outermost; the others to the longest.
  EXPECT_THAT(tokens({{1, 2}, {3}, {4, 5, 6}})
                  .then<PaddedBatchOperator>(2)
                  .then<PaddedBatchOperator>(2, PaddedBatchOptions{.length = PadLength::multiple_of(4)})
                  .elements(),
              ElementsAre("tokens=[[[1,2,0],[3,0,0],[0,0,0],[0,0,0]],[[4,5,6],[0,0,0],[0,0,0],[0,0,0]]]"));
}

TEST(PaddedBatchTest, RefusesRulesThatCannotWork) {
  const Chain rows = tokens({{1, 2}, {3}});
  const auto with = [&](const PaddedBatchOptions& options) {
    return refusal([&] { rows.then<PaddedBatchOperator>(2, options); });
  };
  EXPECT_THAT(with({.length = PadLength::fixed(-1)}), HasSubstr("length must not be negative, not -1"));
  EXPECT_THAT(with({.length = PadLength::multiple_of(0)}), HasSubstr("multiple of at least 1, not 0"));
  EXPECT_THAT(with({.value = "text"}), HasSubstr("value text is of no feature's type"));
  EXPECT_THAT(with({.features = {{"tokens", {.value = 0.5}}}}), HasSubstr("is not of feature 'tokens''s type int64"));
  EXPECT_THAT(with({.features = {{"labels", {}}}}), HasSubstr("no feature 'labels'"));
  EXPECT_THAT(
      refusal([] {
        tokens({{1, 2}, {3, 4}}).then<PaddedBatchOperator>(2, PaddedBatchOptions{.length = PadLength::fixed(1)});
      }),
      HasSubstr("has 2 values, more than length 1"));
  EXPECT_THAT(refusal([] {
                range(3)
                    .then<BatchOperator>(1, BatchOptions{.drop_remainder = true})
                    .then<BatchOperator>(1, BatchOptions{.drop_remainder = true})
                    .then<PaddedBatchOperator>(
                        1, PaddedBatchOptions{.features = {{"x", {.length = PadLength::fixed(3)}}}});
              }),
              HasSubstr("feature 'x' is [1,1]; a length is for vectors, and of others for the outermost size that "
                        "varies"));
}

}  // namespace
}  // namespace millrace::batch_test
