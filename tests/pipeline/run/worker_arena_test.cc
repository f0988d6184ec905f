#include "millrace/pipeline/run/worker_arena.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <oneapi/tbb/info.h>

#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"

namespace millrace::worker_arena_test {
namespace {

const int kCores = tbb::info::default_concurrency();

// With a function of a user every thread of the pipeline is a worker, without one the caller is one of them.
void run(int threads, bool with_function) {
  Dataset dataset = Dataset::range(0, 1000).batch(8);
  if (with_function) {
    dataset = dataset.map(RowFunction{.name = "nothing", .function = [](const RowView&, RowWriter&) {}});
  }
  Pipeline pipeline = dataset.start({.threads = threads});
  int64_t batches = 0;
  while (pipeline.next()) ++batches;
  EXPECT_EQ(batches, 125);
}

std::string printed_by(const std::function<void()>& work) {
  testing::internal::CaptureStderr();
  work();
  return testing::internal::GetCapturedStderr();
}

// oneTBB warns once after each change of the limit.
TEST(WorkerArena, AsksOneTbbForNoMoreWorkersThanItHas) {
  for (const int threads : {0, 1, kCores, kCores + 6}) {
    for (const bool with_function : {false, true}) {
      EXPECT_EQ(printed_by([&] { run(threads, with_function); }), "") << threads << " threads";
      for (const int workers : {0, 1, kCores + 3}) {
        const WorkerLimit limit(workers);
        EXPECT_EQ(printed_by([&] { run(threads, with_function); }), "") << threads << " threads, limit " << workers;
      }
    }
  }
}

TEST(WorkerArena, HasItsThreadsWhereThereAreWorkers) {
  const WorkerLimit limit(kCores + 3);
  EXPECT_EQ(worker_arena(kCores + 4, 1).max_concurrency(), kCores + 4);
  EXPECT_EQ(worker_arena(kCores + 6, 1).max_concurrency(), kCores + 4);
  EXPECT_EQ(worker_arena(kCores + 6, 0).max_concurrency(), kCores + 3);
  EXPECT_EQ(worker_arena(1, 1).max_concurrency(), 1);
}

}  // namespace
}  // namespace millrace::worker_arena_test
