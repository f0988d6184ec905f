#include "millrace/pipeline/pipeline.h"

#include <atomic>
#include <functional>
#include <new>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"

namespace millrace::pipeline_test {
namespace {

/// Spins, then adds 1; different blocks take different times, so that bodies overtake each other.
class SlowAddOne final : public MapOperator {
 public:
  using MapOperator::MapOperator;
  std::string_view name() const override { return "slow_add_one"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true}; }
  Block apply(Block block, BufferPool& pool) const override {
    Column sums = Column::fixed(pool, DType::kInt64, {}, block.num_elements());
    for (size_t i = 0; i < block.num_elements(); ++i) {
      const int64_t value = block.column(0).values<int64_t>(i)[0];
      if (value == fail_at) throw std::runtime_error("value " + std::to_string(value));
      sums.mutable_values<int64_t>()[i] = value + 1;
    }
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(block.first_row * 7919 % 200);
    while (std::chrono::steady_clock::now() < until) {
    }
    return block.with_columns(block.schema(), {std::move(sums)});
  }
  int64_t fail_at = -1;
};

Dataset slow_add_one(const Dataset& input, int64_t fail_at = -1) {
  return Dataset::from_operator({input}, [=](std::span<const SchemaPtr> inputs) {
    auto op = std::make_shared<SlowAddOne>(inputs[0]);
    op->fail_at = fail_at;
    return op;
  });
}

std::vector<int64_t> run(const Dataset& dataset, const StartOptions& options) {
  Pipeline pipeline = dataset.start(options);
  std::vector<int64_t> values;
  while (std::optional<Batch> batch = pipeline.next()) {
    const auto batch_values = batch->values<int64_t>("value");
    values.insert(values.end(), batch_values.begin(), batch_values.end());
  }
  EXPECT_EQ(pipeline.next(), std::nullopt) << "the end stays the end";
  return values;
}

std::vector<int64_t> numbers(int64_t from, int64_t to) {
  std::vector<int64_t> values;
  for (int64_t i = from; i < to; ++i) values.push_back(i);
  return values;
}

class Threads : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(, Threads, testing::Values(1, 2, 4, 8));

TEST_P(Threads, GiveTheSameOrder) {
  const WorkerLimit limit(GetParam());
  const Dataset dataset = slow_add_one(Dataset::range(0, 100000)).batch(32);
  EXPECT_EQ(run(dataset, {.threads = GetParam()}), numbers(1, 100001));
}

TEST_P(Threads, ReallyRun) {
  const WorkerLimit limit(GetParam());
  Pipeline pipeline = slow_add_one(Dataset::range(0, 1 << 22)).repeat().batch(1024).start({.threads = GetParam()});
  // Workers come as work is found; with endless work all of them do.
  while (pipeline.stats().distinct_workers < GetParam()) {
    ASSERT_TRUE(pipeline.next().has_value()) << pipeline.stats().to_string();
  }
  EXPECT_GE(pipeline.stats().distinct_workers, GetParam());  // a thread may go and another come in its place
}

TEST_P(Threads, UnorderedGivesEveryElementOnce) {
  const WorkerLimit limit(GetParam());
  std::vector<int64_t> values = run(slow_add_one(Dataset::range(0, 50000)), {.threads = GetParam(), .ordered = false});
  std::sort(values.begin(), values.end());  // order is what this option gives up
  EXPECT_EQ(values, numbers(1, 50001));
}

TEST_P(Threads, AnErrorIsThrownOnceInItsPlaceAndEndsTheData) {
  const WorkerLimit limit(GetParam());
  Pipeline pipeline = slow_add_one(Dataset::range(0, 10000), 5000).start({.threads = GetParam()});
  int64_t delivered = 0;
  try {
    while (pipeline.next()) ++delivered;
    FAIL() << "no error";
  } catch (const PipelineError& e) {
    EXPECT_EQ(e.error().code, ErrorCode::kUserFunction);
    EXPECT_EQ(e.error().message, "value 5000");
    EXPECT_EQ(e.error().stage, "slow_add_one");
  }
  // A function on blocks loses its block: elements before it have come.
  EXPECT_EQ(delivered, 5000 / kBlockElements * kBlockElements);
  EXPECT_EQ(pipeline.next(), std::nullopt);
}

TEST(Pipeline, AnErrorOfAStageNamesItAlsoWithoutStatistics) {
  for (const bool statistics : {true, false}) {
    Pipeline pipeline =
        Dataset::range(0, 1 << 20).cache().start({.threads = 1, .memory_budget = 4 << 20, .statistics = statistics});
    try {
      while (pipeline.next()) {
      }
      FAIL() << "no error";
    } catch (const PipelineError& e) {
      EXPECT_EQ(e.error().code, ErrorCode::kMemoryBudget);
      EXPECT_EQ(e.error().stage, "cache");
    }
  }
}

// The elements after it are missing: an end that nobody is told of would be silent loss.
TEST(Pipeline, IgnoreErrorsDoesNotDropTheErrorThatEndsTheData) {
  Pipeline pipeline =
      Dataset::range(0, 1 << 20).cache().ignore_errors().start({.threads = 1, .memory_budget = 4 << 20});
  int64_t delivered = 0;
  try {
    while (pipeline.next()) ++delivered;
    FAIL() << "no error after " << delivered << " elements";
  } catch (const PipelineError& e) {
    EXPECT_EQ(e.error().stage, "cache");
  }
  EXPECT_GT(delivered, 0);
}

// The data is endless: a destructor that drained it instead of cancelling would never return.
TEST_P(Threads, DroppedAtAnyMomentCancelsEndlessDataAndLeavesNoBodyRunning) {
  const WorkerLimit limit(GetParam());
  std::atomic<int> running{0};
  const Dataset numbers = Dataset::range(0, 1 << 20).repeat();
  const Dataset watched = numbers.map(BlockFunction{
      .name = "watched", .schema = numbers.plan()->op->schema(), .function = [&running](Block block, BufferPool&) {
        ++running;
        const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
        while (std::chrono::steady_clock::now() < until) {
        }
        --running;
        return block;
      }});
  for (int taken = 0; taken < 40; ++taken) {
    {
      Pipeline pipeline = slow_add_one(watched.batch(8)).batch(4).start({.threads = GetParam()});
      for (int i = 0; i < taken; ++i) ASSERT_TRUE(pipeline.next().has_value());
    }
    ASSERT_EQ(running, 0) << "a body still runs after the destructor, " << taken << " elements taken";
  }
}

// With one worker, an input that drops all it reads must not keep it from the others.
TEST(Pipeline, EndsBesideAnInputThatNeverHasAnotherElement) {
  const std::vector<Dataset> twice(2, Dataset::range(0, 4, 1, "x"));
  const WorkerLimit limit(1);
  for (const bool statistics : {true, false}) {
    for (const Dataset& never : {Dataset::interleave(twice, {.cycle_length = 2}).repeat().unique("x"),
                                 Dataset::range(0, 4, 1, "x").repeat().skip(int64_t{1} << 60)}) {
      const Dataset zipped = Dataset::zip({Dataset::range(0, 9, 1, "a"), Dataset::range(0, 6, 1, "b").take(0), never});
      Pipeline pipeline = zipped.start({.threads = 1, .statistics = statistics});
      EXPECT_EQ(pipeline.next(), std::nullopt);
    }
    const Dataset never = Dataset::interleave(twice, {.cycle_length = 2}).repeat().unique("x");
    Pipeline pipeline = Dataset::zip({Dataset::range(0, 9, 1, "a"), Dataset::range(0, 6, 1, "b").take(2), never})
                            .start({.threads = 1, .statistics = statistics});
    EXPECT_TRUE(pipeline.next().has_value());
    EXPECT_TRUE(pipeline.next().has_value());
    EXPECT_EQ(pipeline.next(), std::nullopt);
  }
}

// Endless data of which a nested filter takes everything: its chain must come back to be cancelled.
TEST_P(Threads, DroppedWhileANestedDatasetFindsNothingForEver) {
  const WorkerLimit limit(GetParam());
  const auto make = [](const RowView& row) {
    const Dataset numbers = Dataset::range(0, 5);
    if (row.value<int64_t>("value") == 0) return numbers;
    return numbers.repeat().filter(RowPredicate{"nothing", [](const RowView&) { return false; }});
  };
  Pipeline pipeline = Dataset::range(0, 2)
                          .flat_map({.name = "make", .gives = Dataset::range(0, 1).schema().features(), .make = make})
                          .start({.threads = GetParam()});
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(pipeline.next().has_value());
}

TEST(Pipeline, WorksWithoutAnyWorkerOfItsOwn) {
  const WorkerLimit limit(0);  // a host's limit of 1: only threads forced by a wake
  EXPECT_EQ(run(slow_add_one(Dataset::range(0, 20000)).batch(7), {.threads = 2}), numbers(1, 20001));
}

TEST(Pipeline, InterleavesInputsThatRunInLanes) {
  std::vector<Dataset> inputs;
  for (int64_t i = 0; i < 40; ++i) inputs.push_back(slow_add_one(Dataset::range(1000 * i, 1000 * i + i)));
  std::vector<int64_t> expected;
  {
    // A plain model of the turns: cycle length 3, block length 2.
    std::vector<std::vector<int64_t>> rest;
    for (int64_t i = 0; i < 40; ++i) rest.push_back(numbers(1000 * i + 1, 1000 * i + i + 1));
    std::vector<std::vector<int64_t>> cycle(3);
    std::vector<bool> open(3, false);
    size_t next_input = 0;
    size_t place = 0;
    while (next_input < rest.size() || open[0] || open[1] || open[2]) {
      if (!open[place] && next_input < rest.size()) {
        cycle[place] = rest[next_input++];
        open[place] = true;
      }
      for (int n = 0; open[place] && n < 2; ++n) {
        if (cycle[place].empty()) {
          open[place] = false;
          break;
        }
        expected.push_back(cycle[place].front());
        cycle[place].erase(cycle[place].begin());
      }
      place = (place + 1) % 3;
    }
  }
  for (const int threads : {1, 2, 4}) {
    const WorkerLimit limit(threads);
    EXPECT_EQ(run(Dataset::interleave(inputs, {.cycle_length = 3, .block_length = 2}), {.threads = threads}), expected);
  }
}

TEST(Pipeline, RefusesToWaitInsideABody) {
  const auto inner = std::make_shared<Pipeline>(Dataset::range(0, 10).start({.threads = 1}));
  class Nested final : public MapOperator {
   public:
    Nested(SchemaPtr schema, std::shared_ptr<Pipeline> pipeline)
        : MapOperator(std::move(schema)), pipeline_(std::move(pipeline)) {}
    std::string_view name() const override { return "nested"; }
    Block apply(Block block, BufferPool&) const override {
      (void)pipeline_->next();
      return block;
    }

   private:
    std::shared_ptr<Pipeline> pipeline_;
  };
  Pipeline outer = Dataset::from_operator({Dataset::range(0, 3)}, [&](std::span<const SchemaPtr> inputs) {
                     return std::make_shared<Nested>(inputs[0], inner);
                   }).start({.threads = 1});
  EXPECT_THROW(outer.next(), PipelineError);
}

TEST(Pipeline, BatchesOutliveIt) {
  std::optional<Batch> batch;
  {
    Pipeline pipeline = slow_add_one(Dataset::range(0, 64)).batch(64).start({.threads = 2});
    batch = pipeline.next();
  }
  ASSERT_TRUE(batch.has_value());
  const auto values = batch->values<int64_t>("value");
  EXPECT_EQ(std::vector<int64_t>(values.begin(), values.end()), numbers(1, 65));
}

TEST(Batch, RefusesAnotherTypeAndAnotherNumberOfElements) {
  Pipeline pipeline = Dataset::range(0, 3).batch(3).start({.threads = 1});
  const std::optional<Batch> batch = pipeline.next();
  ASSERT_TRUE(batch.has_value());
  const auto message = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const ErrorException& e) {
      return e.what();
    }
    return "nothing thrown";
  };
  EXPECT_EQ(message([&] { (void)batch->values<int32_t>("value"); }),
            "invalid_argument: feature 'value' is int64, and was read as int32");
  EXPECT_EQ(message([&] { (void)batch->values<std::string_view>("value"); }),
            "invalid_argument: feature 'value' is int64, and was read as bytes");
  EXPECT_EQ(message([] { (void)Batch{Block()}; }), "invalid_argument: a batch is one element, not a block of 0");
}

/// Gives 0 to 99 and then throws, as no stage should but for std::bad_alloc; or already when it is opened.
class ThrowsInItsStage final : public StageOperator {
 public:
  ThrowsInItsStage(const SchemaPtr& schema, std::function<void()> fail, bool at_once)
      : StageOperator(schema), fail_(std::move(fail)), at_once_(at_once) {}
  std::string_view name() const override { return "throws"; }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override { return inputs[0]; }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override {
    if (at_once_) fail_();
    return std::make_unique<Thrower>(inputs[0](context), fail_);
  }

 private:
  class Thrower final : public Stage {
   public:
    Thrower(std::unique_ptr<Stage> input, std::function<void()> fail)
        : input_(std::move(input)), fail_(std::move(fail)) {}
    Poll next(Block& out) override {
      const Poll poll = input_->next(out);
      if (poll == Poll::kBlock && out.column(0).values<int64_t>(0)[0] >= 100) fail_();
      return poll;
    }

   private:
    std::unique_ptr<Stage> input_;
    std::function<void()> fail_;
  };
  std::function<void()> fail_;
  bool at_once_;
};

Dataset throws_in_its_stage(std::function<void()> fail, bool at_once = false) {
  // Batches of their own blocks: 100 rows come out before the failure.
  const Dataset numbers =
      Dataset::interleave({Dataset::range(0, 100), Dataset::range(100, 200)}, {.cycle_length = 1, .block_length = 100});
  return Dataset::from_operator({numbers}, [=](std::span<const SchemaPtr> inputs) {
    return std::make_shared<ThrowsInItsStage>(inputs[0], fail, at_once);
  });
}

TEST_P(Threads, AStageThatThrowsIsOneErrorBehindWhatItHadGiven) {
  const WorkerLimit limit(GetParam());
  const auto end_of = [](const Dataset& dataset) {
    Pipeline pipeline = dataset.start({.threads = GetParam()});
    int64_t rows = 0;
    try {
      while (const auto batch = pipeline.next()) rows += batch->num_rows();
    } catch (const PipelineError& e) {
      EXPECT_EQ(pipeline.next(), std::nullopt);
      return fmt::format("{} rows, {}", rows, e.what());
    }
    return fmt::format("{} rows", rows);
  };
  const auto no_memory = [] { throw std::bad_alloc(); };
  const auto other = [] { throw std::runtime_error("no such stage"); };
  const std::string out_of_memory = "out_of_memory: the system has no more memory (stage throws)";
  EXPECT_EQ(end_of(throws_in_its_stage(no_memory)), "100 rows, " + out_of_memory);
  // What the stages of its chain had gathered goes with it, unless they had handed it on before: whole or not at all.
  EXPECT_THAT(end_of(throws_in_its_stage(no_memory).batch(10)),
              testing::AnyOf("0 rows, " + out_of_memory, "100 rows, " + out_of_memory));
  EXPECT_EQ(end_of(throws_in_its_stage(other).add("value", int64_t{1})),
            "100 rows, user_function: no such stage (stage throws)");
  EXPECT_EQ(end_of(throws_in_its_stage(no_memory, true)), "0 rows, " + out_of_memory);
  // In a lane: the other lane goes on until its turn comes.
  EXPECT_EQ(end_of(Dataset::interleave({Dataset::range(0, 7), throws_in_its_stage(other)}, {.cycle_length = 2})),
            "107 rows, user_function: no such stage (stage throws)");
  EXPECT_EQ(end_of(throws_in_its_stage(no_memory).ignore_errors().repeat(3)), "100 rows, " + out_of_memory);
}

TEST(Pipeline, AMapWithoutMemoryIsOneError) {
  const Dataset mapped = Dataset::range(0, 10).map(RowFunction{
      .name = "huge", .writes = {}, .function = [](const RowView&, RowWriter&) { throw std::bad_alloc(); }});
  Pipeline pipeline = mapped.start({.threads = 2});
  try {
    pipeline.next();
    FAIL() << "no error";
  } catch (const PipelineError& e) {
    EXPECT_STREQ(e.what(), "out_of_memory: the system has no more memory (stage map)");
  }
}

}  // namespace
}  // namespace millrace::pipeline_test
