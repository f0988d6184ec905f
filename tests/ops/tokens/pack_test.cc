#include "millrace/ops/tokens/pack.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "tests/ops/tokens/first_fit_decreasing.h"
#include "tests/support/operator_chain.h"
#include "tests/support/small_memory_gate.h"

namespace millrace::pack_test {
namespace {

using test::Chain;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Rows = std::vector<std::vector<int64_t>>;

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

TEST(PackTest, PutsSequencesIntoRowsWithSegmentsAndPositions) {
  const Chain chain = tokens({{1, 2, 3}, {4, 5}, {6}, {}, {7, 8, 9, 10}}).then<PackOperator>(4);
  EXPECT_EQ(chain.schema()->to_string(), "t int64 [4], segment_ids int32 [4], positions int32 [4]");
  EXPECT_THAT(chain.elements(), ElementsAre("t=[1,2,3,6] segment_ids=[1,1,1,2] positions=[0,1,2,0]",
                                            "t=[4,5,0,0] segment_ids=[1,1,0,0] positions=[0,1,0,0]",
                                            "t=[7,8,9,10] segment_ids=[1,1,1,1] positions=[0,1,2,3]"));
  EXPECT_THAT(chain.run().rows, testing::Each(1));
  EXPECT_THAT(tokens({}).then<PackOperator>(4).elements(), IsEmpty());
  EXPECT_THAT(tokens({{}, {}}).then<PackOperator>(4).elements(), IsEmpty());
}

TEST(PackTest, LooksNoFurtherAheadThanItMay) {
  const Rows rows{{1, 1}, {2, 2, 2}, {3, 3}, {4}};
  const auto first = [&](int64_t look_ahead) {
    return tokens(rows).then<PackOperator>(4, PackOptions{.look_ahead = look_ahead}).elements()[0];
  };
  EXPECT_THAT(first(1), HasSubstr("t=[1,1,0,0]"));
  EXPECT_THAT(first(2), HasSubstr("t=[1,1,3,3]"));
}

TEST(PackTest, PacksTheNamedFeaturesWithValuesOfTheirOwn) {
  const Chain pairs =
      Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"t", Rows{{1, 2}, {3}}},
                                                             {"w", std::vector<std::vector<float>>{{0.5F, 1}, {2}}},
                                                             {"x", std::vector<int64_t>{7, 8}}});
  PackOptions options{.features = {"w", "t"}, .value = -1, .segment_ids = "s", .positions = "p"};
  options.values["w"] = 1.5;
  EXPECT_THAT(pairs.then<PackOperator>(4, options).elements(),
              ElementsAre("w=[0.5,1,2,1.5] t=[1,2,3,-1] s=[1,1,2,0] p=[0,1,0,0]"));
}

TEST(PackTest, ALongSequenceIsAnErrorOrSplit) {
  const Chain rows = tokens({{1, 2, 3, 4, 5, 6, 7}, {8}, {9, 9, 9, 9}});
  EXPECT_THAT(
      rows.then<PackOperator>(3).elements(),
      ElementsAre("error: wrong_shape: pack: a sequence has 7 values, a row 3 (LongSequences::kSplit cuts them)",
                  HasSubstr("a sequence has 4 values"), HasSubstr("t=[8,0,0]")));
  EXPECT_THAT(
      rows.then<PackOperator>(3, PackOptions{.long_sequences = LongSequences::kSplit}).elements(),
      ElementsAre("t=[1,2,3] segment_ids=[1,1,1] positions=[0,1,2]", "t=[4,5,6] segment_ids=[1,1,1] positions=[0,1,2]",
                  "t=[7,8,9] segment_ids=[1,2,3] positions=[0,0,0]",
                  "t=[9,9,9] segment_ids=[1,1,1] positions=[0,1,2]"));
}

TEST(PackTest, FeaturesOfUnlikeLengthsAreAnErrorThatLosesNothing) {
  const Chain pairs = Chain::source<RowsOperator>(
      std::vector<MemoryFeature>{{"t", Rows{{1}, {2, 2}, {3}}}, {"u", Rows{{1}, {2}, {3}}}});
  EXPECT_THAT(pairs.then<PackOperator>(4).elements(),
              ElementsAre("error: wrong_shape: pack: feature 't' has 2 values, 'u' has 1",
                          HasSubstr("t=[1,3,0,0] u=[1,3,0,0]")));
}

TEST(PackTest, SequencesThatWaitAreBoundByTheMemoryBudget) {
  const Chain chain = tokens(Rows(1000, std::vector<int64_t>(100, 1))).then<PackOperator>(1024);
  test::SmallMemoryGate gate(100'000);
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
    EXPECT_THAT(e.error().message, HasSubstr("75 sequences that wait take 75400 bytes"));
  }
}

TEST(PackTest, RefusesWhatCannotBe) {
  const auto message = [](int64_t length, const PackOptions& options = {}) {
    return refusal([&] { tokens({{1}, {2, 2}}).then<PackOperator>(length, options); });
  };
  EXPECT_THAT(message(0), HasSubstr("length must be from 1 to 16777216, not 0"));
  EXPECT_THAT(message(4, {.look_ahead = 0}), HasSubstr("look_ahead must be from 1"));
  EXPECT_THAT(message(4, {.features = {"x"}}), HasSubstr("no feature 'x' here"));
  EXPECT_THAT(message(4, {.segment_ids = "t"}), HasSubstr("feature 't' occurs twice"));
  EXPECT_THAT(message(4, {.value = 0.5}), HasSubstr("pack: value 0.5 is of no feature's type"));
  EXPECT_THAT(refusal([] { Chain::source<RangeOperator>(0, 3, 1, "x").then<PackOperator>(4); }),
              HasSubstr("feature 'x' is int64 [], and vectors of numbers are packed; name those to pack"));
}

// Lengths of the varlen data set: a log-normal distribution of median e^4.3, cut to [4, 1024].
std::vector<size_t> log_normal_lengths(size_t count) {
  const CounterRng rng(20261120, operator_id("lengths"));
  std::vector<size_t> lengths;
  for (size_t i = 0; i < count; ++i) {
    const CounterRng::Words words = rng.words(i);
    const double u = (words[0] + 0.5) / 4294967296.0;
    const double v = (words[1] + 0.5) / 4294967296.0;
    const double normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
    lengths.push_back(static_cast<size_t>(std::clamp(std::exp(4.3 + 0.8 * normal), 4.0, 1024.0)));
  }
  return lengths;
}

struct Packed {
  size_t rows = 0;
  size_t tokens = 0;
  double padding() const { return 1 - static_cast<double>(tokens) / static_cast<double>(rows * 1024); }
};

// Packs sequences of these lengths, of which each value says which sequence it is from and where it stood there, and
// checks that every value comes out once, together with the others of its sequence, in order.
Packed pack_all(const std::vector<size_t>& lengths, int64_t look_ahead) {
  Rows rows;
  for (size_t i = 0; i < lengths.size(); ++i) {
    auto& row = rows.emplace_back();
    for (size_t p = 0; p < lengths[i]; ++p) row.push_back(static_cast<int64_t>(i << 11 | p));
  }
  const Chain chain = tokens(rows).then<PackOperator>(1024, PackOptions{.look_ahead = look_ahead, .value = -1});
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  const auto stage = chain.opener(0)({pool, waker, {}, lanes});
  std::vector<uint8_t> seen(lengths.size());
  Packed packed;
  bool right = true;
  Block block;
  while (stage->next(block) == Poll::kBlock) {
    for (size_t e = 0; e < block.num_elements(); ++e) {
      const auto values = block.column(0).values<int64_t>(e);
      const auto segments = block.column(1).values<int32_t>(e);
      const auto positions = block.column(2).values<int32_t>(e);
      ++packed.rows;
      size_t place = 0;
      for (int32_t segment = 1; place < values.size() && values[place] != -1; ++segment) {
        const auto sequence = static_cast<size_t>(values[place] >> 11);
        right = right && seen[sequence] == 0;
        seen[sequence] = 1;
        for (size_t p = 0; p < lengths[sequence]; ++p, ++place) {
          right = right && values[place] == rows[sequence][p] && segments[place] == segment &&
                  positions[place] == static_cast<int32_t>(p);
        }
        packed.tokens += lengths[sequence];
      }
      for (; place < values.size(); ++place) {
        right = right && values[place] == -1 && segments[place] == 0 && positions[place] == 0;
      }
    }
  }
  EXPECT_TRUE(right);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 0), 0);
  return packed;
}

TEST(PackTest, RowsOfLogNormalLengthsAreNearlyAsFullAsFirstFitDecreasingMakesThem) {
  const std::vector<size_t> lengths = log_normal_lengths(20000);
  const size_t total = std::accumulate(lengths.begin(), lengths.end(), size_t{0});
  const size_t offline = test::first_fit_decreasing(lengths, 1024);
  const double least = 1 - static_cast<double>(total) / static_cast<double>(offline * 1024);
  fmt::print("{} sequences, rows of 1024: first-fit-decreasing {} rows, {:.3f}% padding\n", lengths.size(), offline,
             100 * least);
  for (const int64_t look_ahead : {1, 10, 100, 1000}) {
    const Packed packed = pack_all(lengths, look_ahead);
    EXPECT_EQ(packed.tokens, total);
    fmt::print("  look-ahead {:>4}: {} rows, {:.3f}% padding\n", look_ahead, packed.rows, 100 * packed.padding());
    if (look_ahead == 1000) {
      EXPECT_LE(packed.padding(), least + 0.03);
    }
  }
}

}  // namespace
}  // namespace millrace::pack_test
