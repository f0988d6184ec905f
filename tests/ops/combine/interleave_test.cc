#include "millrace/ops/combine/interleave.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "tests/support/operator_chain.h"

namespace millrace::interleave_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Chain interleave(const std::vector<Chain>& inputs, const InterleaveOptions& options) {
  return Chain::of(std::make_shared<InterleaveOperator>(inputs[0].schema(), options, inputs.size()), inputs);
}

Chain ranges(const std::vector<std::pair<int64_t, int64_t>>& limits, const InterleaveOptions& options) {
  std::vector<Chain> inputs;
  for (const auto& [start, stop] : limits) inputs.push_back(Chain::source<RangeOperator>(start, stop, 1, "x"));
  return interleave(inputs, options);
}

std::string joined(const Chain& chain) { return test::joined(chain, "x"); }

TEST(InterleaveTest, TakesBlocksInTurnAndRefillsAPlaceWhenItsTurnComesBack) {
  std::vector<Chain> inputs;
  for (int64_t v = 1; v <= 5; ++v) {
    inputs.push_back(Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"x", std::vector<int64_t>(6, v)}}));
  }
  EXPECT_EQ(joined(interleave(inputs, {.cycle_length = 2, .block_length = 4})),
            "1 1 1 1 2 2 2 2 1 1 2 2 3 3 3 3 4 4 4 4 3 3 4 4 5 5 5 5 5 5");
}

TEST(InterleaveTest, AnInputThatEndsWithItsBlockAndAnEmptyOneEachCostATurn) {
  EXPECT_EQ(joined(ranges({{0, 1}, {10, 15}, {20, 22}, {30, 33}}, {.cycle_length = 3, .block_length = 2})),
            "0 10 11 20 21 30 31 12 13 32 14");
  EXPECT_EQ(joined(ranges({{0, 0}, {10, 13}, {5, 5}, {20, 22}, {30, 30}, {40, 43}}, {.cycle_length = 2})),
            "10 11 20 12 21 40 41 42");
  EXPECT_EQ(joined(ranges({{3, 3}, {2, 2}, {9, 1}}, {.cycle_length = 2, .block_length = 2})), "");
}

TEST(InterleaveTest, CycleLengthOneGivesOneInputAfterTheOther) {
  EXPECT_EQ(joined(ranges({{0, 3}, {10, 12}, {20, 21}}, {.cycle_length = 1})), "0 1 2 10 11 20");
}

TEST(InterleaveTest, ReadingAheadDoesNotChangeTheStream) {
  const std::vector<std::pair<int64_t, int64_t>> limits{
      {0, 3000}, {5000, 5001}, {7000, 7000}, {8000, 9999}, {100, 200}};
  const auto expected = ranges(limits, {.cycle_length = 2, .block_length = 3, .read_ahead = 0}).elements();
  EXPECT_EQ(expected.size(), 3000u + 1 + 1999 + 100);
  for (const size_t read_ahead : {1, 2, 9}) {
    EXPECT_EQ(ranges(limits, {.cycle_length = 2, .block_length = 3, .read_ahead = read_ahead}).elements(), expected);
  }
}

TEST(InterleaveTest, ErrorsPassAndDoNotCountInATurn) {
  const Chain faulty = Chain::source<FaultyRange>(4, std::vector<int64_t>{1});
  const Chain good = Chain::source<RangeOperator>(10, 14, 1, "x");
  EXPECT_EQ(joined(interleave({faulty, good}, {.cycle_length = 2, .block_length = 2})),
            "0 error: parse: at 1 2 10 11 3 12 13");
}

TEST(InterleaveTest, UnorderedGivesEveryElementOnceAndKeepsTheOrderOfEachInput) {
  const Chain chain = ranges({{0, 100}, {1000, 1100}, {2000, 2100}}, {.cycle_length = 2, .ordered = false});
  for (uint64_t jitter = 0; jitter < 8; ++jitter) {
    std::vector<int64_t> next{0, 1000, 2000};
    for (const std::string& element : chain.run(jitter).elements) {
      const int64_t value = std::stoll(element.substr(2));
      ASSERT_EQ(value, next[static_cast<size_t>(value / 1000)]++);
    }
    EXPECT_EQ(next, (std::vector<int64_t>{100, 1100, 2100}));
  }
}

// A lane counts what is open in it.
class LanesThatCount final : public Lanes {
 public:
  explicit LanesThatCount(size_t num_lanes) : open_(num_lanes) {}
  std::unique_ptr<Stage> open(size_t lane, OpenStage open, const StageContext& context, const Cursor& place) override {
    EXPECT_LT(lane, open_.size());
    EXPECT_EQ(open_[lane]++, 0) << "lane " << lane << " was still in use";
    most_ = std::max(most_, std::count(open_.begin(), open_.end(), 1));
    paths_.push_back(context.iteration.path);
    class Held final : public Stage {
     public:
      Held(std::unique_ptr<Stage> stage, int& open) : stage_(std::move(stage)), open_(open) {}
      ~Held() override { --open_; }
      Poll next(Block& out) override { return stage_->next(out); }

     private:
      std::unique_ptr<Stage> stage_;
      int& open_;
    };
    return std::make_unique<Held>(open_at(open, context, place), open_[lane]);
  }
  std::vector<int> open_;
  std::ptrdiff_t most_ = 0;
  std::vector<uint64_t> paths_;
};

TEST(InterleaveTest, EachInputHasALaneOfItsOwnAndItsOwnIteration) {
  const InterleaveOptions options{.cycle_length = 3, .block_length = 2, .read_ahead = 2};
  std::vector<OpenStage> inputs;
  for (int64_t i = 0; i < 20; ++i) inputs.push_back(Chain::source<RangeOperator>(0, i, 1, "x").opener(0));
  const InterleaveOperator op(RangeOperator(0, 1, 1, "x").schema(), options, inputs.size());
  LanesThatCount lanes(op.num_lanes());
  BufferPool pool;
  test::CountingWaker waker;
  {
    const auto stage = op.open(inputs, {pool, waker, {.epoch = 7, .path = 0}, lanes});
    Block block;
    size_t elements = 0;
    while (stage->next(block) == Poll::kBlock) {
      elements += block.num_elements();
      EXPECT_EQ(block.epoch, 7);
    }
    EXPECT_EQ(elements, 190u);
  }
  EXPECT_EQ(lanes.most_, 5);
  EXPECT_THAT(lanes.open_, ElementsAre(0, 0, 0, 0, 0));
  std::sort(lanes.paths_.begin(), lanes.paths_.end());
  EXPECT_EQ(std::unique(lanes.paths_.begin(), lanes.paths_.end()) - lanes.paths_.begin(), 20);
}

TEST(InterleaveTest, HasNoMoreLanesThanInputs) {
  const auto lanes = [](const InterleaveOptions& options, size_t num_inputs) {
    return InterleaveOperator(record_schema(), options, num_inputs).num_lanes();
  };
  EXPECT_EQ(lanes({.cycle_length = 3, .read_ahead = 2}, 20), 5u);
  EXPECT_EQ(lanes({.cycle_length = 3, .read_ahead = 2}, 4), 4u);
  EXPECT_EQ(lanes({.cycle_length = 3, .read_ahead = 2}, 2), 2u);
  EXPECT_EQ(lanes({.cycle_length = SIZE_MAX, .read_ahead = 2}, 7), 7u);
  for (const size_t longer : {size_t{4}, size_t{1000}, SIZE_MAX}) {
    EXPECT_EQ(joined(ranges({{0, 5}, {10, 13}, {20, 29}}, {.cycle_length = longer, .block_length = 2})),
              "0 1 10 11 20 21 2 3 12 22 23 4 24 25 26 27 28");
  }
}

TEST(InterleaveTest, RefusesLengthsBelowOne) {
  for (const InterleaveOptions options : {InterleaveOptions{.cycle_length = 0}, InterleaveOptions{.block_length = 0}}) {
    try {
      InterleaveOperator(record_schema(), options, 2);
      FAIL() << "no error";
    } catch (const ErrorException& e) {
      EXPECT_THAT(e.what(), testing::MatchesRegex(
                                "invalid_argument: interleave: (cycle|block)_length must be at least 1, not 0"));
    }
  }
}

TEST(InterleaveTest, CardinalityIsUnknown) {
  EXPECT_EQ(ranges({{0, 3}, {10, 12}}, {}).cardinality(), Cardinality::unknown());
}

}  // namespace
}  // namespace millrace::interleave_test
