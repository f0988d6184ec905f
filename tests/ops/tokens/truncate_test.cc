#include "millrace/ops/tokens/truncate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/batch/batch.h"
#include "millrace/ops/features/map.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "millrace/ops/tokens/truncate_pair.h"
#include "tests/support/operator_chain.h"

namespace millrace::truncate_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Rows = std::vector<std::vector<int64_t>>;

Chain two_features(const Rows& ids, const Rows& mask) {
  return Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"ids", ids}, {"mask", mask}});
}

template <typename Op, typename Options>
std::string refusal(const Chain& input, const Options& options) {
  try {
    (void)input.then<Op>(options);
  } catch (const ErrorException& error) {
    EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "accepted";
}

TEST(TruncateTest, HeadAndTailOfLongerRowsStayAndShorterOnesStayWhole) {
  const Chain input =
      two_features({{1, 2, 3, 4, 5}, {6, 7, 8}, {}, {9, 10, 11, 12}}, {{1, 1, 1, 1, 0}, {1, 1, 0}, {}, {1, 2, 3, 4}});
  const TruncateOptions options{.features = {"ids", "mask"}, .head = 2, .tail = 1};
  EXPECT_THAT(input.then<TruncateOperator>(options).elements(),
              ElementsAre("ids=[1,2,5] mask=[1,1,0]", "ids=[6,7,8] mask=[1,1,0]", "ids=[] mask=[]",
                          "ids=[9,10,12] mask=[1,2,4]"));
}

TEST(TruncateTest, HeadOnlyAndTailOnlyLeaveOtherFeaturesAlone) {
  const Chain input = two_features({{1, 2, 3, 4, 5}}, {{1, 1, 1, 1, 0}});
  EXPECT_THAT(input.then<TruncateOperator>(TruncateOptions{.features = {"ids"}, .head = 3}).elements(),
              ElementsAre("ids=[1,2,3] mask=[1,1,1,1,0]"));
  EXPECT_THAT(input.then<TruncateOperator>(TruncateOptions{.features = {"ids"}, .tail = 3}).elements(),
              ElementsAre("ids=[3,4,5] mask=[1,1,1,1,0]"));
}

// As T5 is fed with long questions: the first 255 tokens, <extra_id_1>, the last 256.
TEST(TruncateTest, AMarkerStandsWhereSomethingWasLeftOut) {
  std::vector<int64_t> exact(512);
  std::vector<int64_t> longer(513);
  for (size_t i = 0; i < longer.size(); ++i) longer[i] = static_cast<int64_t>(i);
  for (size_t i = 0; i < exact.size(); ++i) exact[i] = static_cast<int64_t>(i);
  std::vector<int64_t> expected(longer.begin(), longer.begin() + 255);
  expected.push_back(32098);
  expected.insert(expected.end(), longer.end() - 256, longer.end());
  const Chain cut =
      two_features({exact, longer}, {std::vector<int64_t>(512, 1), std::vector<int64_t>(513, 1)})
          .then<TruncateOperator>(TruncateOptions{.features = {"ids", "mask"},
                                                  .head = 255,
                                                  .tail = 256,
                                                  .marker = {{"ids", int64_t{32098}}, {"mask", int64_t{1}}}});
  const Chain whole = two_features({exact, expected}, {std::vector<int64_t>(512, 1), std::vector<int64_t>(512, 1)});
  EXPECT_EQ(cut.elements(), whole.elements());
}

TEST(TruncateTest, BytesAndFloatsAreCutAndMarkedToo) {
  const Chain input = Chain::source<RowsOperator>(std::vector<MemoryFeature>{
      {"words", std::vector<std::vector<std::string>>{{"a", "long enough for no small string", "c", "d"}, {"e"}}},
      {"weights", std::vector<std::vector<float>>{{0.5F, 1, 1.5F, 2}, {2.5F}}}});
  const TruncateOptions options{
      .features = {"words", "weights"}, .head = 2, .marker = {{"words", std::string("...")}, {"weights", 0.25}}};
  EXPECT_THAT(
      input.then<TruncateOperator>(options).elements(),
      ElementsAre("words=[a,long enough for no small string,...] weights=[0.5,1,0.25]", "words=[e] weights=[2.5]"));
}

TEST(TruncateTest, AFixedLengthBecomesAnotherOne) {
  const Chain ids =
      Chain::source<RangeOperator>(0, 3, 1, "x")
          .then<MapRowsOperator>(RowFunction{.name = "five",
                                             .writes = {{.name = "ids", .dtype = DType::kInt32, .shape = {5}}},
                                             .function = [](const RowView& row, RowWriter& out) {
                                               if (row.value<int64_t>("x") == 1) throw std::runtime_error("one");
                                               int32_t i = 0;
                                               for (int32_t& id : out.make<int32_t>("ids", std::vector<int64_t>{5}))
                                                 id = i++;
                                             }});
  const Chain cut = ids.then<TruncateOperator>(TruncateOptions{.features = {"ids"}, .head = 1, .tail = 1});
  EXPECT_EQ((*cut.schema())[1].shape, (Shape{2}));
  EXPECT_THAT(cut.elements(), ElementsAre("x=0 ids=[0,4]", "error: user_function: map 'five': one", "x=2 ids=[0,4]"));
  const Chain whole = ids.then<TruncateOperator>(TruncateOptions{.features = {"ids"}, .head = 9});
  EXPECT_EQ(whole.elements(), ids.elements());
  EXPECT_EQ(*whole.schema(), *ids.schema());
}

TEST(TruncateTest, UnlikeLengthsAreTheErrorOfTheElement) {
  const Chain input = two_features({{1, 2, 3}, {4, 5, 6}}, {{1, 1}, {1, 1, 1}});
  EXPECT_THAT(input.then<TruncateOperator>(TruncateOptions{.features = {"ids", "mask"}, .head = 1}).elements(),
              ElementsAre("error: wrong_shape: truncate: 'ids' has 3 values, 'mask' 2", "ids=[4] mask=[1]"));
  const TruncatePairOptions pair{.first = {"ids", "mask"}, .second = {"other"}, .length = 2};
  const Chain three = Chain::source<RowsOperator>(std::vector<MemoryFeature>{
      {"ids", Rows{{1, 2, 3}, {4, 5, 6}}}, {"mask", Rows{{1, 1}, {1, 1, 1}}}, {"other", Rows{{7}, {8}}}});
  EXPECT_THAT(
      three.then<TruncatePairOperator>(pair).elements(),
      ElementsAre("error: wrong_shape: truncate_pair: 'ids' has 3 values, 'mask' 2", "ids=[4] mask=[1] other=[8]"));
}

TEST(TruncateTest, BadOptionsAreRefused) {
  const Chain input = two_features({{1}}, {{1}});
  const auto why = [&](const TruncateOptions& options) { return refusal<TruncateOperator>(input, options); };
  EXPECT_THAT(why({.head = 1}), HasSubstr("name the features"));
  EXPECT_THAT(why({.features = {"ids"}}), HasSubstr("nothing would be left"));
  EXPECT_THAT(why({.features = {"ids"}, .head = -1, .tail = 2}), HasSubstr("head is -1"));
  EXPECT_THAT(why({.features = {"ids", "ids"}, .head = 1}), HasSubstr("'ids' is named twice"));
  EXPECT_THAT(why({.features = {"x"}, .head = 1}), HasSubstr("'x'"));
  EXPECT_THAT(why({.features = {"ids", "mask"}, .head = 1, .marker = {{"ids", int64_t{1}}}}),
              HasSubstr("no value for 'mask'"));
  EXPECT_THAT(why({.features = {"ids"}, .head = 1, .marker = {{"ids", int64_t{1}}, {"mask", int64_t{1}}}}),
              HasSubstr("'mask' has a marker and is not cut"));
  EXPECT_THAT(why({.features = {"ids"}, .head = 1, .marker = {{"ids", 0.5}}}), HasSubstr("0.5"));
  EXPECT_THAT(refusal<TruncateOperator>(Chain::source<RangeOperator>(0, 1, 1, "x"),
                                        TruncateOptions{.features = {"x"}, .head = 1}),
              HasSubstr("shape []"));
}

// The loop that everybody has copied from BERT's create_pretraining_data.py.
std::pair<size_t, size_t> popped(size_t first, size_t second, size_t most) {
  while (first + second > most) (first > second ? first : second) -= 1;
  return {first, second};
}

TEST(TruncatePairTest, TheLongerOneIsCutAsBertsLoopDoes) {
  Rows first;
  Rows second;
  for (int64_t a = 0; a <= 9; ++a) {
    for (int64_t b = 0; b <= 9; ++b) {
      first.emplace_back();
      second.emplace_back();
      for (int64_t i = 0; i < a; ++i) first.back().push_back(i);
      for (int64_t i = 0; i < b; ++i) second.back().push_back(100 + i);
    }
  }
  for (const int64_t most : {1, 2, 5, 6, 8, 11, 18}) {
    Rows first_left = first;
    Rows second_left = second;
    for (size_t i = 0; i < first.size(); ++i) {
      const auto [a, b] = popped(first[i].size(), second[i].size(), static_cast<size_t>(most));
      first_left[i].resize(a);
      second_left[i].resize(b);
    }
    const Chain cut =
        two_features(first, second)
            .then<TruncatePairOperator>(TruncatePairOptions{.first = {"ids"}, .second = {"mask"}, .length = most});
    EXPECT_EQ(cut.run().elements, two_features(first_left, second_left).run().elements) << most;
  }
}

TEST(TruncatePairTest, BadOptionsAreRefused) {
  const Chain input = two_features({{1}}, {{1}});
  const auto why = [&](const TruncatePairOptions& options) { return refusal<TruncatePairOperator>(input, options); };
  EXPECT_THAT(why({.first = {"ids"}, .length = 4}), HasSubstr("name features of both"));
  EXPECT_THAT(why({.first = {"ids"}, .second = {"mask"}}), HasSubstr("length is 0"));
  EXPECT_THAT(why({.first = {"ids"}, .second = {"ids"}, .length = 4}), HasSubstr("'ids' is named twice"));
}

TEST(TruncateTest, ErrorsEmptyInputsAndBatchesOfScalarsPass) {
  const TruncateOptions options{.features = {"x"}, .head = 1};
  const Chain faulty = Chain::source<FaultyRange>(5, std::vector<int64_t>{2})
                           .then<BatchOperator>(2, BatchOptions{})
                           .then<TruncateOperator>(options);
  EXPECT_THAT(faulty.elements(), ElementsAre("x=[0]", "error: parse: at 2", "x=[3]"));
  EXPECT_THAT(
      Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"x", Rows{}}}).then<TruncateOperator>(options).elements(),
      IsEmpty());
}

}  // namespace
}  // namespace millrace::truncate_test
