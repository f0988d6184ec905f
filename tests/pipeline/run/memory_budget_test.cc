#include "millrace/pipeline/run/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/stream_hash.h"
#include "millrace/pipeline/worker_limit.h"

namespace millrace::memory_budget_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kMebibyte = 1 << 20;

/// Rows of `numbers` int64 each, `count` of them, made by a map.
Dataset wide_rows(int64_t count, int64_t numbers) {
  return Dataset::range(0, count).map(
      RowFunction{.name = "widen",
                  .writes = {{.name = "wide", .dtype = DType::kInt64, .shape = {kVaries}}},
                  .function = [numbers](const RowView& row, RowWriter& out) {
                    const std::vector<int64_t> values(static_cast<size_t>(numbers), row.values<int64_t>("value")[0]);
                    out.set_values("wide", std::span<const int64_t>(values));
                  }});
}

std::string error_of(const Dataset& dataset, const StartOptions& options) {
  try {
    Pipeline pipeline = dataset.start(options);
    while (pipeline.next()) {
    }
  } catch (const ErrorException& error) {
    EXPECT_EQ(error.error().code, ErrorCode::kMemoryBudget);
    return error.what();
  }
  return "none";
}

TEST(MemoryBudget, TheStreamIsTheSameInLittleMemoryAndTheBuffersKeepWithin) {
  const WorkerLimit limit(4);
  // A block of the map's output is 8 MB at first; after it everything waits its turn.
  const Dataset dataset = wide_rows(20000, 100).shuffle(500, {.seed = 2}).padded_batch(16).repeat(2);
  const auto run = [&](int threads, int64_t budget) {
    Pipeline pipeline = dataset.start({.threads = threads, .memory_budget = budget});
    StreamHash hash;
    while (std::optional<Batch> batch = pipeline.next()) hash.add(*batch);
    if (budget > 0) {
      EXPECT_LE(pipeline.stats().peak_buffer_bytes, budget + budget / 10);
    }
    EXPECT_EQ(pipeline.stats().memory_budget, checked_memory_budget(budget));
    return hash.hex();
  };
  const std::string free = run(2, 0);
  for (const int threads : {1, 2, 4}) EXPECT_EQ(run(threads, 16 * kMebibyte), free) << threads;
}

TEST(MemoryBudget, GroupsCountWhatTheyTakeBesidesTheirRows) {
  // 8 bytes a row, in a million groups: some 240 MB.
  const RowKey key = {.name = "itself", .key = [](const RowView& row) { return row.value<int64_t>(0); }};
  EXPECT_THAT(
      error_of(Dataset::range(0, 1'000'000).group_by_window(key, 2), {.threads = 2, .memory_budget = 72 * kMebibyte}),
      AllOf(HasSubstr("group_by_window: "), HasSubstr("of the memory budget of 75497472 bytes")));
}

TEST(MemoryBudget, AShuffleWhoseRowsAreTooLargeSaysHowMuchItNeeds) {
  EXPECT_THAT(error_of(wide_rows(100000, 200).shuffle(50000), {.threads = 2, .memory_budget = 16 * kMebibyte}),
              AllOf(HasSubstr("of the 50000 rows of the buffer take"), HasSubstr("memory budget of 16777216 bytes"),
                    HasSubstr("stage shuffle")));
}

TEST(MemoryBudget, WhatIsKnownToBeTooMuchFailsAtStart) {
  const int64_t rows = int64_t{1} << 20;
  const Dataset dataset = Dataset::range(0, rows).shuffle(rows).batch(16, {.drop_remainder = true});
  EXPECT_THAT(error_of(dataset, {.threads = 1, .memory_budget = kMebibyte}),
              HasSubstr("bytes are needed (shuffle 207618048, batch 128), the memory budget is 1048576"));
  EXPECT_EQ(error_of(dataset, {.threads = 1, .memory_budget = 200 * kMebibyte}), "none");
  EXPECT_THROW((void)checked_memory_budget(1000), ErrorException);
  EXPECT_GT(checked_memory_budget(0), 64 * kMebibyte);
}

TEST(MemoryBudget, AShuffleOfShortRowsTakesWhatItSays) {
  const int64_t rows = int64_t{1} << 18;
  const Dataset shuffled = Dataset::range(0, rows).shuffle(rows);
  const std::string refusal = error_of(shuffled, {.threads = 1, .memory_budget = kMebibyte});
  const size_t number = refusal.find("(shuffle ");
  ASSERT_NE(number, std::string::npos) << refusal;
  const int64_t budget = std::stoll(refusal.substr(number + 9));
  Pipeline pipeline = shuffled.start({.threads = 1, .memory_budget = budget});
  int64_t delivered = 0;
  while (pipeline.next()) ++delivered;
  EXPECT_EQ(delivered, rows);
  EXPECT_LE(pipeline.stats().peak_buffer_bytes, budget / 8 * 7) << "work that runs ahead would have had to wait";
  EXPECT_GT(pipeline.stats().peak_buffer_bytes, budget / 2);
}

TEST(MemoryBudget, WhatIsNeverNeededIsNotAskedFor) {
  const StartOptions small{.threads = 1, .memory_budget = 16 * kMebibyte};
  // A buffer for everything, of what is known and of what is not.
  EXPECT_EQ(error_of(Dataset::range(0, 1000).shuffle(int64_t{1} << 40), small), "none");
  EXPECT_EQ(error_of(Dataset::range(0, 1000).unique({"value"}).shuffle(int64_t{1} << 40), small), "none");
  // The inputs of a concatenate are open one after the other, those of a zip together.
  const Dataset shuffled = Dataset::range(0, 60'000).shuffle(60'000);
  EXPECT_EQ(error_of(Dataset::concatenate({shuffled, shuffled, shuffled}), small), "none");
  EXPECT_THAT(error_of(Dataset::interleave({shuffled, shuffled, shuffled}), small),
              HasSubstr("bytes are needed (shuffle 11880000, shuffle 11880000, shuffle 11880000)"));
}

TEST(MemoryBudget, ABatchThatIsPaddedToTooMuchIsAnError) {
  // One row is long, the other wide.
  const auto crossed = [](int64_t size) {
    return Dataset::range(0, 6).map({.name = "crossed",
                                     .writes = {{.name = "x", .dtype = DType::kInt64, .shape = {kVaries, kVaries}}},
                                     .function = [size](const RowView& row, RowWriter& out) {
                                       const auto value = row.value<int64_t>("value");
                                       const int64_t other = value < 4 ? size : 1;
                                       const std::vector<int64_t> values(static_cast<size_t>(other), 1);
                                       const Shape shape = value % 2 == 0 ? Shape{other, 1} : Shape{1, other};
                                       out.set_values<int64_t>("x", values, shape);
                                     }});
  };
  const auto count = [](const Dataset& dataset, const StartOptions& options) {
    Pipeline pipeline = dataset.start(options);
    int64_t batches = 0;
    while (pipeline.next()) ++batches;
    return batches;
  };
  for (const int threads : {1, 4}) {
    const StartOptions options{.threads = threads, .memory_budget = 256 * kMebibyte};
    const Dataset large = crossed(30'000).padded_batch(2);
    EXPECT_THAT(error_of(large, options),
                HasSubstr("padded_batch: feature 'x' of a batch is padded to [2,30000,30000], which takes 14400000000 "
                          "bytes; the memory budget is 268435456"));
    // It is in its place: the batches around it come.
    EXPECT_EQ(count(large.ignore_errors(), options), 1);
    const Dataset overflow = crossed(1'000'000).padded_batch(2).ignore_errors();
    EXPECT_EQ(count(overflow, options), 1);
    try {
      count(crossed(1'000'000).padded_batch(2), options);
      FAIL();
    } catch (const ErrorException& exception) {
      EXPECT_EQ(exception.error().code, ErrorCode::kWrongShape);
      EXPECT_THAT(exception.what(), HasSubstr("is padded to [2,1000000,1000000], more than 1099511627776 values"));
    }
  }
}

TEST(MemoryBudget, RowsOfABatchThatTakeTooMuchAreAnError) {
  EXPECT_THAT(error_of(wide_rows(100'000, 1000).batch(90'000), {.threads = 2, .memory_budget = 16 * kMebibyte}),
              AllOf(HasSubstr("rows of a batch of 90000 take"), HasSubstr("the memory budget is 16777216")));
  EXPECT_EQ(error_of(wide_rows(1000, 1000).batch(900), {.threads = 2, .memory_budget = 16 * kMebibyte}), "none");
}

TEST(MemoryBudget, WhatWaitsForAWindowIsCounted) {
  const StartOptions small{.threads = 2, .memory_budget = 16 * kMebibyte};
  EXPECT_THAT(error_of(wide_rows(100'000, 100).window(50'000, {.shift = 1}), small),
              AllOf(HasSubstr("window: "), HasSubstr("that wait for a window of 50000, 1 apart, take"),
                    HasSubstr("three quarters of the memory budget of 16777216 bytes")));
  EXPECT_THAT(error_of(wide_rows(100'000, 100).window(2, {.stride = 50'000}), small), HasSubstr("window of 2, 50000"));
  EXPECT_EQ(error_of(wide_rows(10'000, 10).window(5'000, {.shift = 5'000}), small), "none");
}

TEST(MemoryBudget, TheQueuesOfAPackAreCounted) {
  EXPECT_THAT(
      error_of(wide_rows(10, 10).drop({"value"}).pack(10'000'000), {.threads = 1, .memory_budget = 200 * kMebibyte}),
      HasSubstr("pack 266666676)"));
}

TEST(MemoryBudget, NobodyWaitsForEverInAMebibyte) {
  const WorkerLimit limit(4);
  std::vector<Dataset> inputs;
  for (int64_t i = 0; i < 6; ++i) inputs.push_back(wide_rows(60 + i, 3000));
  const Dataset dataset = Dataset::interleave(inputs, {.cycle_length = 4, .block_length = 3}).padded_batch(7);
  const auto run = [&](int threads, int64_t budget) {
    Pipeline pipeline =
        dataset.start({.threads = threads, .memory_budget = budget, .watchdog = 60, .on_stall = exit_on_stall});
    StreamHash hash;
    while (std::optional<Batch> batch = pipeline.next()) hash.add(*batch);
    return hash.hex();
  };
  const std::string free = run(2, 0);
  for (int repeat = 0; repeat < 5; ++repeat) {
    for (const int threads : {1, 2, 4}) EXPECT_EQ(run(threads, kMebibyte), free) << threads;
  }
}

}  // namespace
}  // namespace millrace::memory_budget_test
