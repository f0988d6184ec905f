#include "millrace/ops/combine/interleave_function.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/flow/skip.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/ops/file_source_cases.h"
#include "tests/support/operator_chain.h"

namespace millrace::interleave_function_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Chain range(int64_t start, int64_t stop) { return Chain::source<RangeOperator>(start, stop, 1, "x"); }

// 10 x, 10 x + 1 … x of them; for 7 the function throws.
Chain tens(const Chain& input, const InterleaveOptions& options) {
  NestedFunction function;
  function.name = "tens";
  function.schema = RangeOperator(0, 1, 1, "y").schema();
  function.open = [](const RowView& row) {
    const auto x = row.value<int64_t>("x");
    if (x == 7) throw std::runtime_error("seven");
    return Chain::source<RangeOperator>(10 * x, 11 * x, 1, "y").opener(0);
  };
  return Chain::of(std::make_shared<InterleaveFunctionOperator>(function, options), {input});
}

std::string joined(const Chain& chain) { return test::joined(chain, "y"); }

TEST(InterleaveFunction, TakesTurnsAndANewDatasetEntersInThePlaceOfAnEndedOne) {
  const Chain numbers =
      Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"x", std::vector<int64_t>{3, 1, 2, 0, 4}}});
  EXPECT_EQ(joined(tens(numbers, {.cycle_length = 2})), "30 10 31 32 20 21 40 41 42 43");
  EXPECT_EQ(joined(tens(numbers, {.cycle_length = 9, .block_length = 2})), "30 31 10 20 21 40 41 32 42 43");
  EXPECT_EQ(joined(tens(numbers, {.cycle_length = 1})), "30 31 32 10 20 21 40 41 42 43");
  EXPECT_EQ(joined(tens(range(0, 1), {.cycle_length = 3})), "");
  EXPECT_EQ(joined(tens(range(0, 0), {.cycle_length = 3})), "");
}

TEST(InterleaveFunction, ReadingAheadDoesNotChangeTheStream) {
  const std::string expected = joined(tens(range(0, 30), {.cycle_length = 3, .block_length = 2, .read_ahead = 0}));
  for (const size_t read_ahead : {1, 2, 40}) {
    EXPECT_EQ(joined(tens(range(0, 30), {.cycle_length = 3, .block_length = 2, .read_ahead = read_ahead})), expected);
  }
}

TEST(InterleaveFunction, ErrorsAndNotesPassWhereTheirDatasetWouldBeOpened) {
  const Chain input = Chain::source<FaultyRange>(6, std::vector<int64_t>{1}, std::vector<int64_t>{4});
  EXPECT_EQ(joined(tens(input, {.cycle_length = 2})),
            "error: parse: at 1 20 30 21 31 32 error: parse: note at 4 50 51 52 53 54");
  EXPECT_THAT(tens(range(7, 9), {}).elements()[0], HasSubstr("user_function: interleave 'tens': seven"));
  EXPECT_EQ(tens(range(7, 9), {}).elements().size(), 9u);
}

TEST(InterleaveFunction, EmptyDatasetsWithoutAnEndLetOthersRun) {
  const Chain chain = tens(range(0, 1).then<RepeatOperator>(-1), {.cycle_length = 3});
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  const auto stage = chain.opener(0)({pool, waker, {}, lanes});
  Block block;
  EXPECT_EQ(stage->next(block), Poll::kPending);
  EXPECT_GT(waker.wakes, 0);
}

TEST(InterleaveFunction, RefusesWhatCannotBe) {
  const auto refusal = [](const InterleaveOptions& options) {
    try {
      (void)tens(range(0, 1), options);
    } catch (const ErrorException& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal({.cycle_length = 0}), HasSubstr("cycle_length must be at least 1, not 0"));
  EXPECT_THAT(refusal({.block_length = 0}), HasSubstr("block_length must be at least 1, not 0"));
  EXPECT_EQ(refusal({.cycle_length = 998}), "");
  EXPECT_THAT(refusal({.cycle_length = 999}), HasSubstr("must be at most 1000 with a function, not 999 and 2"));
  EXPECT_THAT(refusal({.cycle_length = 2, .read_ahead = SIZE_MAX}), HasSubstr("must be at most 1000"));
  EXPECT_THROW(InterleaveFunctionOperator({}, {}), ErrorException);
}

// Fails for some numbers.
RowFunction fail_for(const std::string& feature, const std::vector<int64_t>& bad) {
  return {.name = "fail_for", .function = [feature, bad](const RowView& row, RowWriter&) {
            if (std::count(bad.begin(), bad.end(), row.value<int64_t>(feature)) > 0) throw std::runtime_error("bad");
          }};
}

Dataset dataset_of(const nlohmann::json& one) {
  const auto lengths = one.at("lengths").get<std::vector<int64_t>>();
  const auto bad_calls = one.at("bad_calls").get<std::vector<int64_t>>();
  const auto bad_numbers = one.at("bad_numbers").get<std::vector<int64_t>>();
  DatasetFunction function{.name = "hundreds", .gives = {{.name = "y"}}, .make = [=](const RowView& row) {
                             const auto k = row.value<int64_t>("x");
                             if (std::count(bad_calls.begin(), bad_calls.end(), k) > 0) throw std::runtime_error("bad");
                             const int64_t stop = 100 * k + lengths[static_cast<size_t>(k)];
                             return Dataset::range(100 * k, stop, 1, "y").map(fail_for("y", bad_numbers));
                           }};
  return Dataset::range(0, static_cast<int64_t>(lengths.size()), 1, "x")
      .map(fail_for("x", one.at("bad_inputs").get<std::vector<int64_t>>()))
      .interleave(function, {.cycle_length = one.at("cycle_length"), .block_length = one.at("block_length")});
}

// `y`, and -1 in the place of an error, so that what comes after it is seen.
class ShowErrors final : public MapOperator {
 public:
  explicit ShowErrors(const SchemaPtr& schema) : MapOperator(schema) {}
  std::string_view name() const override { return "show_errors"; }
  Block apply(Block block, BufferPool& pool) const override {
    Column shown = Column::fixed(pool, DType::kInt64, {}, block.num_elements());
    for (size_t i = 0; i < block.num_elements(); ++i) {
      shown.mutable_values<int64_t>()[i] = block.error_at(i) == nullptr ? block.column(0).values<int64_t>(i)[0] : -1;
    }
    Block made(schema(), {std::move(shown)}, block.num_elements());
    made.cursor = block.cursor;
    return made;
  }
};

std::vector<int64_t> values(const Dataset& dataset, const StartOptions& options, size_t limit = SIZE_MAX,
                            std::string* state = nullptr) {
  const WorkerLimit workers(options.threads);
  const Dataset shown = Dataset::from_operator(
      {dataset}, [](std::span<const SchemaPtr> inputs) { return std::make_shared<ShowErrors>(inputs[0]); });
  Pipeline pipeline = shown.start(options);
  std::vector<int64_t> all;
  while (all.size() < limit) {
    const std::optional<Batch> batch = pipeline.next();
    if (!batch) break;
    all.push_back(batch->values<int64_t>("y")[0]);
  }
  if (state != nullptr) *state = pipeline.save().serialize();
  return all;
}

TEST(InterleaveFunction, GivesWhatTensorFlowGives) {
  size_t with_errors = 0;
  for (const nlohmann::json& one : test::operator_cases("interleave.jsonl")) {
    SCOPED_TRACE(one.dump());
    std::vector<int64_t> expected;
    for (const nlohmann::json& element : one.at("expect")) {
      expected.push_back(element.is_string() ? -1 : element.get<int64_t>());
    }
    with_errors += static_cast<size_t>(std::count(expected.begin(), expected.end(), -1));
    EXPECT_EQ(values(dataset_of(one), {.threads = 2}), expected);
  }
  EXPECT_GT(with_errors, 50u);
}

TEST(InterleaveFunction, AResumedRunMakesOnlyTheDatasetsThatWereOpen) {
  int calls = 0;
  NestedFunction function;
  function.name = "some";
  function.schema = RangeOperator(0, 1, 1, "y").schema();
  function.open = [&calls](const RowView& row) {
    ++calls;
    const auto x = row.value<int64_t>("x");
    // One that stays open while others come and go.
    return Chain::source<RangeOperator>(x, x + (x == 1 ? 100000 : 500), 1, "y").opener(0);
  };
  const Chain chain = Chain::of(
      std::make_shared<InterleaveFunctionOperator>(function, InterleaveOptions{.cycle_length = 3, .read_ahead = 1}),
      {range(0, 200)});
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  const auto stage = chain.opener(0)({pool, waker, {}, lanes});
  Block block;
  while (calls < 150) ASSERT_EQ(stage->next(block), Poll::kBlock);
  for (int i = 0; i < 12; ++i) {
    ASSERT_EQ(stage->next(block), Poll::kBlock);
    calls = 0;
    const auto resumed = open_at(chain.opener(0), {pool, waker, {}, lanes}, block.cursor);
    Block again;
    ASSERT_EQ(resumed->next(again), Poll::kBlock);
    // Three that were open, one ahead, and those that eight blocks of 1,024 elements go through at most.
    EXPECT_LE(calls, 4 + 9 * 1024 * 2 / 3 / 500);
    EXPECT_EQ(again.column(0).values<int64_t>(0)[0], block.column(0).values<int64_t>(0)[0]);
  }
}

// A range that counts how often it is opened.
class CountedRange final : public StageOperator {
 public:
  CountedRange(int64_t stop, int& opened) : CountedRange(std::make_shared<RangeOperator>(0, stop, 1, "x"), opened) {}
  std::string_view name() const override { return range_->name(); }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override { return range_->cardinality(inputs); }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override {
    ++opened_;
    return range_->open(std::move(inputs), context);
  }
  OperatorTraits traits() const override { return {.checkpoint_blocker = ""}; }

 private:
  CountedRange(std::shared_ptr<const RangeOperator> range, int& opened)
      : StageOperator(range->schema()), range_(std::move(range)), opened_(opened) {}

  std::shared_ptr<const RangeOperator> range_;
  int& opened_;
};

TEST(InterleaveFunction, AResumedRunOpensItsInputOnceForAllDatasetsThatWereOpen) {
  int opened = 0;
  const Chain input = Chain::source<CountedRange>(400, opened);
  const Chain chain = tens(input.then<SkipOperator>(20), {.cycle_length = 30, .read_ahead = 5});
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  const auto stage = chain.opener(0)({pool, waker, {}, lanes});
  Block block;
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(stage->next(block), Poll::kBlock);
    opened = 0;
    const auto resumed = open_at(chain.opener(0), {pool, waker, {}, lanes}, block.cursor);
    Block again;
    ASSERT_EQ(resumed->next(again), Poll::kBlock);
    EXPECT_EQ(again.column(0).values<int64_t>(0)[0], block.column(0).values<int64_t>(0)[0]);
    EXPECT_EQ(opened, 1) << i;
  }
}

TEST(InterleaveFunction, GoesOnAnywhereInAShuffledInput) {
  DatasetFunction function{.name = "some", .gives = {{.name = "y"}}, .make = [](const RowView& row) {
                             const auto x = row.value<int64_t>("x");
                             return Dataset::range(1000 * x, 1000 * x + (x == 1 ? 700 : x % 4), 1, "y");
                           }};
  const Dataset dataset =
      Dataset::range(0, 900, 1, "x").shuffle(20, {.seed = 1}).interleave(function, {.cycle_length = 4});
  const std::vector<int64_t> all = values(dataset, {.threads = 2});
  ASSERT_EQ(all.size(), 700u + 900 / 4 * 6 - 1);
  for (const size_t place : {size_t{0}, size_t{1}, size_t{50}, size_t{900}, size_t{1300}, all.size() - 1, all.size()}) {
    std::string state;
    (void)values(dataset, {.threads = 1}, place, &state);
    EXPECT_LT(state.size(), 2000u);
    const std::vector<int64_t> rest = values(dataset, {.threads = 8, .state = PipelineState::parse(state)});
    EXPECT_EQ(rest, std::vector<int64_t>(all.begin() + static_cast<std::ptrdiff_t>(place), all.end())) << place;
  }
}

TEST(InterleaveFunction, AStateOfAnEndlessInputGoesOnAnywhere) {
  DatasetFunction function{.name = "some", .gives = {{.name = "y"}}, .make = [](const RowView& row) {
                             const auto x = row.value<int64_t>("x");
                             return Dataset::range(10 * x, 10 * x + x % 3, 1, "y").repeat(2);
                           }};
  const Dataset dataset =
      Dataset::range(0, 7, 1, "x").repeat().interleave(function, {.cycle_length = 3, .block_length = 2});
  const std::vector<int64_t> all = values(dataset, {.threads = 2}, 400);
  for (size_t place = 0; place < 300; place += 37) {
    std::string state;
    (void)values(dataset, {.threads = 2}, place, &state);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(place);
    EXPECT_EQ(values(dataset, {.threads = 1, .state = PipelineState::parse(state)}, 100),
              std::vector<int64_t>(begin, begin + 100));
  }
}

}  // namespace
}  // namespace millrace::interleave_function_test
