#include "millrace/ops/batch/bucket_by_sequence_length.h"

#include <array>

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/batch/padded_batch.h"
#include "millrace/ops/batch/ragged_batch.h"
#include "millrace/ops/features/map.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "tests/support/operator_chain.h"
#include "tests/support/sanitized.h"
#include "tests/support/small_memory_gate.h"

namespace millrace::bucket_by_sequence_length_test {
namespace {

using test::Chain;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Rows = std::vector<std::vector<int64_t>>;
using Numbers = std::vector<int64_t>;

Chain tokens(const Rows& rows) { return Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"t", rows}}); }
Chain bucketed(const Chain& input, const Numbers& boundaries, const Numbers& sizes, const BucketOptions& options = {}) {
  return input.then<BucketBySequenceLengthOperator>(std::vector<std::string>{"t"}, boundaries, sizes, options);
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

const Rows kRows{{1, 2}, {3}, {4, 5, 6}, {7, 8}, {}, {9}, {1, 1, 1, 1}};

TEST(BucketBySequenceLengthTest, BatchesRowsOfSimilarLengthsAndTheRestAtTheEndShortestFirst) {
  const Chain chain = bucketed(tokens(kRows), {2, 3}, {2, 2, 2});
  EXPECT_EQ(chain.schema()->to_string(), "t int64 [?,?]");
  EXPECT_THAT(chain.elements(), ElementsAre("t=[[1,2],[7,8]]", "t=[[3],[0]]", "t=[[4,5,6,0],[1,1,1,1]]", "t=[[9]]"));
  EXPECT_THAT(bucketed(tokens(kRows), {2, 3}, {2, 2, 2}, {.padding = {.drop_remainder = true}}).elements(),
              ElementsAre("t=[[1,2],[7,8]]", "t=[[3],[0]]", "t=[[4,5,6,0],[1,1,1,1]]"));
  EXPECT_THAT(bucketed(tokens({}), {2}, {1, 1}).elements(), IsEmpty());
  EXPECT_THAT(bucketed(tokens({{1}, {2, 3}, {4}}), {2}, {5, 5}).elements(), ElementsAre("t=[[1],[4]]", "t=[[2,3]]"));
}

TEST(BucketBySequenceLengthTest, TakesNoBoundaryAndOneThatNoRowIsBelow) {
  EXPECT_THAT(bucketed(tokens({{1}, {2, 3}, {}}), {}, {2}).elements(), ElementsAre("t=[[1,0],[2,3]]", "t=[[]]"));
  for (const bool to_boundary : {false, true}) {
    EXPECT_THAT(
        bucketed(tokens({{1}, {}, {2, 3}}), {0, 3}, {1, 2, 1}, {.pad_to_bucket_boundary = to_boundary}).elements(),
        to_boundary ? ElementsAre("t=[[1,0],[0,0]]", "t=[[2,3]]") : ElementsAre("t=[[1],[0]]", "t=[[2,3]]"));
  }
}

// As tf.data has it, also where the batch would be dropped for not being full.
TEST(BucketBySequenceLengthTest, ARowTooLongForEveryBucketIsAnErrorThoughRemaindersAreDropped) {
  const BucketOptions options{.pad_to_bucket_boundary = true, .padding = {.drop_remainder = true}};
  EXPECT_THAT(bucketed(tokens({{1}, {2, 3, 4}}), {3}, {2, 2}, options).elements(),
              ElementsAre(HasSubstr("a row has length 3; with pad_to_bucket_boundary it must be below the last "
                                    "boundary, 3")));
  EXPECT_THAT(bucketed(tokens({{1}}), {}, {2}, options).elements(), ElementsAre(HasSubstr("and there is none")));
}

TEST(BucketBySequenceLengthTest, PadsToTheBoundaryAMultipleOrAValueOfTheFeaturesOwn) {
  EXPECT_THAT(
      bucketed(tokens({{1}, {2, 2}, {3, 3, 3}}), {3, 5}, {2, 1, 1}, {.pad_to_bucket_boundary = true}).elements(),
      ElementsAre("t=[[1,0],[2,2]]", "t=[[3,3,3,0]]"));
  EXPECT_THAT(
      bucketed(tokens({{1}, {2, 2, 2}}), {5}, {2, 1}, {.padding = {.length = PadLength::multiple_of(4), .value = -1}})
          .elements(),
      ElementsAre("t=[[1,-1,-1,-1],[2,2,2,-1]]"));
  const Chain pairs = Chain::source<RowsOperator>(
      std::vector<MemoryFeature>{{"t", Rows{{1}, {2, 3}}}, {"w", Rows{{7, 7, 7}, {8, 8, 8}}}, {"u", Rows{{5}, {}}}});
  PaddedBatchOptions padding;
  padding.features["t"].value = int64_t{-2};
  padding.features["u"].length = PadLength::fixed(2);
  // What has one size for all rows stays as it is.
  EXPECT_THAT(bucketed(pairs, {6}, {2, 1}, {.pad_to_bucket_boundary = true, .padding = padding}).elements(),
              ElementsAre("t=[[1,-2,-2,-2,-2],[2,3,-2,-2,-2]] w=[[7,7,7],[8,8,8]] u=[[5,0],[0,0]]"));
}

TEST(BucketBySequenceLengthTest, ARowTooLongForEveryBoundaryIsTheErrorOfItsBatch) {
  EXPECT_THAT(bucketed(tokens({{1, 2}, {3, 4, 5, 6}, {7}}), {3}, {2, 1}, {.pad_to_bucket_boundary = true}).elements(),
              ElementsAre("error: wrong_shape: bucket_by_sequence_length: a row has length 4; with "
                          "pad_to_bucket_boundary it must be below the last boundary, 3",
                          "t=[[1,2],[7,0]]"));
  const Chain pairs =
      Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"t", Rows{{1}, {2, 2}}}, {"u", Rows{{5}, {1, 2, 3}}}});
  EXPECT_THAT(
      bucketed(pairs, {3}, {2, 1}, {.pad_to_bucket_boundary = true}).elements(),
      ElementsAre(HasSubstr("feature 'u' has 3 values in row 1 of the batch, more than length 2, the boundary 3")));
}

TEST(BucketBySequenceLengthTest, OfSeveralFeaturesTheLongestCounts) {
  const Chain pairs = Chain::source<RowsOperator>(
      std::vector<MemoryFeature>{{"t", Rows{{1}, {2}, {3, 3, 3}}}, {"u", Rows{{1, 1, 1}, {2}, {}}}});
  EXPECT_THAT(pairs.then<BucketBySequenceLengthOperator>(std::vector<std::string>{"t", "u"}, Numbers{3}, Numbers{9, 2})
                  .elements(),
              ElementsAre("t=[[1,0,0],[3,3,3]] u=[[1,1,1],[0,0,0]]", "t=[[2]] u=[[2]]"));
}

TEST(BucketBySequenceLengthTest, ErrorsGoOutInTheirPlacesAndLoseNothing) {
  const Chain failing = tokens({{1}, {2, 2}, {13}, {4}, {5, 5}})
                            .then<MapRowsOperator>(RowFunction{
                                .name = "fail", .writes = {}, .function = [](const RowView& row, RowWriter&) {
                                  if (row.values<int64_t>("t")[0] == 13) throw std::runtime_error("unlucky");
                                }});
  EXPECT_THAT(bucketed(failing, {2}, {2, 2}).elements(),
              ElementsAre(HasSubstr("unlucky"), "t=[[1],[4]]", "t=[[2,2],[5,5]]"));
}

TEST(BucketBySequenceLengthTest, ManyRowsOfManyLengthsKeepTheirValues) {
  Rows rows;
  for (int64_t i = 0; i < 20000 / static_cast<int64_t>(test::kStride); ++i)
    rows.emplace_back(static_cast<size_t>(i * 7919 % 97), i);
  const Chain chain = bucketed(tokens(rows), {16, 32, 48, 64, 80}, {7, 6, 5, 4, 3, 2});
  std::vector<Numbers> waiting(6);
  std::vector<std::string> expected;
  const auto print = [&](size_t b) {
    size_t longest = 0;
    for (const int64_t i : waiting[b]) longest = std::max(longest, rows[static_cast<size_t>(i)].size());
    std::string text;
    for (const int64_t i : waiting[b]) {
      Numbers row = rows[static_cast<size_t>(i)];
      row.resize(longest);
      text += fmt::format("{}[{}]", text.empty() ? "" : ",", fmt::join(row, ","));
    }
    expected.push_back("t=[" + text + "]");
    waiting[b].clear();
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t b = std::min<size_t>(rows[i].size() / 16, 5);
    waiting[b].push_back(static_cast<int64_t>(i));
    if (waiting[b].size() == 7 - b) print(b);
  }
  for (size_t b = 0; b < 6; ++b) {
    if (!waiting[b].empty()) print(b);
  }
  EXPECT_EQ(chain.run().elements, expected);
  EXPECT_EQ(chain.run(5).elements, expected);
}

// Batches so large that they are made straight from the rows that wait.
TEST(BucketBySequenceLengthTest, LargeBatchesAreTheSameAsPaddedBatchesOfTheirRows) {
  constexpr size_t kCount = 4000 / test::kStride;
  Rows rows;
  std::vector<std::vector<float>> weights;
  std::vector<std::vector<int32_t>> pairs;
  Numbers ids;
  for (size_t i = 0; i < kCount; ++i) {
    const size_t length = i * 7919 % 230;
    for (auto& row = rows.emplace_back(); row.size() < length;) {
      row.push_back(static_cast<int64_t>(i * 1000 + row.size()));
    }
    weights.emplace_back(length / 2, static_cast<float>(i));
    pairs.push_back({static_cast<int32_t>(i), 5});
    ids.push_back(static_cast<int64_t>(i));
  }
  const auto source = [&](const std::vector<size_t>& of) {
    std::vector<MemoryFeature> features{
        {"t", Rows{}}, {"w", decltype(weights){}}, {"p", decltype(pairs){}}, {"id", Numbers{}}};
    for (const size_t i : of) {
      std::get<Rows>(features[0].values).push_back(rows[i]);
      std::get<decltype(weights)>(features[1].values).push_back(weights[i]);
      std::get<decltype(pairs)>(features[2].values).push_back(pairs[i]);
      std::get<Numbers>(features[3].values).push_back(ids[i]);
    }
    return Chain::source<RowsOperator>(features);
  };
  for (const bool to_boundary : {false, true}) {
    PaddedBatchOptions padding{.value = -1};
    padding.features["w"].value = 0.5;
    if (!to_boundary) padding.length = PadLength::multiple_of(16);
    const Numbers boundaries{100, 240};
    std::vector<std::string> expected;
    std::vector<std::vector<size_t>> waiting(2);
    const auto give = [&](size_t b) {
      PaddedBatchOptions alone = padding;
      if (to_boundary) alone.length = PadLength::fixed(boundaries[b] - 1);
      if (to_boundary) alone.features["p"].length = PadLength::fixed(2);
      expected.push_back(source(waiting[b]).then<PaddedBatchOperator>(kCount, alone).run().elements.at(0));
      waiting[b].clear();
    };
    std::vector<size_t> all(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      all[i] = i;
      const size_t b = rows[i].size() < 100 ? 0 : 1;
      waiting[b].push_back(i);
      if (waiting[b].size() == (b == 0 ? 300 : 64)) give(b);
    }
    for (size_t b = 0; b < 2; ++b) {
      if (!waiting[b].empty()) give(b);
    }
    const Chain chain =
        bucketed(source(all), boundaries, {300, 64, 1}, {.pad_to_bucket_boundary = to_boundary, .padding = padding});
    EXPECT_EQ(chain.run().elements, expected);
    EXPECT_EQ(chain.run(3).elements, expected);
  }
}

TEST(BucketBySequenceLengthTest, RowsThatWaitAreBoundByTheMemoryBudget) {
  const Chain chain = bucketed(tokens(Rows(100, std::vector<int64_t>(1000, 1))), {2000}, {1000, 1});
  test::SmallMemoryGate gate(400'000);
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  StageContext context{pool, waker, {}, lanes};
  context.memory = &gate;
  const auto stage = chain.opener(0)(context);
  Block block;
  try {
    while (stage->next(block) == Poll::kBlock) {
    }
    FAIL() << "no error";
  } catch (const ErrorException& e) {
    EXPECT_EQ(e.error().code, ErrorCode::kMemoryBudget);
    EXPECT_THAT(e.error().message,
                HasSubstr("bucket_by_sequence_length: 37 rows that wait in 1 groups take 300344 bytes, "
                          "more than three quarters of the memory budget of 400000 bytes"));
  }
}

TEST(BucketBySequenceLengthTest, RowsThatWaitForLongDoNotKeepTheBlocksTheyCameIn) {
  const auto schema = std::make_shared<const Schema>(
      std::vector<FeatureSpec>{{.name = "t", .dtype = DType::kInt64, .shape = {kVaries}}});
  // In each block of 800 KB a row for a bucket that never fills.
  class Blocks final : public Stage {
   public:
    Blocks(SchemaPtr schema, BufferPool& pool) : builder_(std::move(schema), pool) {}
    Poll next(Block& out) override {
      for (size_t i = 0; i < 1000; ++i) {
        const Numbers row(i == 500 ? 1 : 100, next_++);
        const std::array<int64_t, 1> shape{static_cast<int64_t>(row.size())};
        builder_.column(0).append<int64_t>(row, shape);
      }
      builder_.added_elements(1000);
      out = builder_.finish();
      return Poll::kBlock;
    }

   private:
    BlockBuilder builder_;
    int64_t next_ = 0;
  };
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  const OpenStage open = [schema](const StageContext& context) {
    return std::make_unique<Blocks>(schema, context.pool);
  };
  const BucketBySequenceLengthOperator op(schema, {"t"}, {2}, {100'000, 37}, {});
  for (const bool later : {false, true}) {
    StageContext context{pool, waker, {}, lanes};
    context.assembles_later = later;
    const auto stage = op.open({open}, context);
    int64_t number = 0;  // of a long row
    for (int batches = 0; batches < 2000;) {
      Block block;
      ASSERT_EQ(stage->next(block), Poll::kBlock);
      block = std::move(block).assembled();
      for (size_t b = 0; b < block.num_elements(); ++b, ++batches) {
        for (size_t row = 0; row < 37; ++row, ++number) {
          if (number % 1000 == 500) ++number;
          ASSERT_EQ(block.column(0).values<int64_t>(b)[100 * row], number);
        }
      }
    }
    EXPECT_LT(pool.bytes_in_use(), 16 << 20);
  }
}

TEST(BucketBySequenceLengthTest, RefusesWhatCannotBe) {
  const auto message = [](const Numbers& boundaries, const Numbers& sizes, const BucketOptions& options = {}) {
    return refusal([&] { bucketed(tokens(kRows), boundaries, sizes, options); });
  };
  EXPECT_THAT(message({2, 3}, {1, 1}), HasSubstr("2 boundaries make 3 buckets, and there are 2 batch sizes"));
  EXPECT_THAT(message({3, 3}, {1, 1, 1}), HasSubstr("increase from 0 or more, not 3, 3"));
  EXPECT_THAT(message({-1}, {1, 1}), HasSubstr("increase from 0 or more, not -1"));
  EXPECT_THAT(message({2}, {1, 0}), HasSubstr("batch sizes must be at least 1, not 0"));
  EXPECT_THAT(message({2}, {1, 1}, {.pad_to_bucket_boundary = true, .padding = {.length = PadLength::fixed(9)}}),
              HasSubstr("exclude each other"));
  EXPECT_THAT(message({2}, {1, 1}, {.padding = {.length = PadLength::multiple_of(0)}}),
              HasSubstr("bucket_by_sequence_length: length must be a multiple of at least 1, not 0"));
  EXPECT_THAT(refusal([] {
                bucketed(Chain::source<RangeOperator>(0, 3, 1, "t"), {2}, {1, 1});
              }),
              HasSubstr("feature 't' is a scalar"));
  EXPECT_THAT(refusal([] {
                bucketed(tokens(kRows).then<RaggedBatchOperator>(2), {2}, {1, 1});
              }),
              HasSubstr("bucket_by_sequence_length: feature 't' is ragged"));
  EXPECT_THAT(
      refusal([] {
        tokens(kRows).then<BucketBySequenceLengthOperator>(std::vector<std::string>{"x"}, Numbers{1}, Numbers{1, 1});
      }),
      HasSubstr("no feature 'x' here"));
}

}  // namespace
}  // namespace millrace::bucket_by_sequence_length_test
