#include "pipeline/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/dataset.h"
#include "pipeline/stream_hash.h"
#include "pipeline/worker_limit.h"

namespace millrace {
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
  // A block of the map's output is 8 MB at first; behind it everything waits its turn.
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
  const Dataset dataset = Dataset::range(0, 10).shuffle(int64_t{1} << 20).batch(16, {.drop_remainder = true});
  EXPECT_THAT(error_of(dataset, {.threads = 1, .memory_budget = kMebibyte}),
              HasSubstr("bytes are needed (shuffle 144703488, batch 128), the memory budget is 1048576"));
  EXPECT_EQ(error_of(dataset, {.threads = 1, .memory_budget = 160 * kMebibyte}), "none");
  EXPECT_THROW((void)checked_memory_budget(1000), ErrorException);
  EXPECT_GT(checked_memory_budget(0), 64 * kMebibyte);
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
}  // namespace millrace
