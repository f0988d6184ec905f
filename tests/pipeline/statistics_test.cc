#include "millrace/pipeline/statistics.h"

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/support/manual_storage.h"
#include "tests/support/temporary_folder.h"

namespace millrace::statistics_test {
namespace {

namespace fs = std::filesystem;

// A run of 10 s whose caller always waits: `0:source` and `1:batch` are the chain of segment 0, `2:parse` and `3:mask`
// its body, `4:shuffle` the chain of segment 1.
Statistics ten_seconds() {
  Statistics statistics;
  statistics.wall_seconds = 10;
  statistics.consumer_waiting_seconds = 9;
  statistics.stages = {{.name = "0:source", .segment = 0, .busy_seconds = 4},
                       {.name = "1:batch", .segment = 0, .busy_seconds = 3},
                       {.name = "2:parse", .segment = 0, .parallel = true, .busy_seconds = 5},
                       {.name = "3:mask", .segment = 0, .parallel = true, .busy_seconds = 6},
                       {.name = "4:shuffle", .segment = 1, .busy_seconds = 2}};
  return statistics;
}

void set_waits(Statistics& statistics, int segment, double for_input, double for_output) {
  for (StageReport& stage : statistics.stages) {
    if (stage.segment != segment) continue;
    stage.waiting_for_input_seconds = for_input;
    stage.waiting_for_output_seconds = for_output;
  }
}

TEST(Bottleneck, IsNoneBeforeAnythingRan) {
  EXPECT_EQ(Statistics().bottleneck(), "none");
  Statistics statistics = ten_seconds();
  statistics.wall_seconds = 0;
  EXPECT_EQ(statistics.bottleneck(), "none");
}

TEST(Bottleneck, IsTheConsumerThatHardlyWaits) {
  Statistics statistics = ten_seconds();
  statistics.consumer_waiting_seconds = 2.9;
  EXPECT_EQ(statistics.bottleneck(), "consumer");
  statistics.consumer_waiting_seconds = 3.1;
  EXPECT_EQ(statistics.bottleneck(), "4:shuffle");
}

TEST(Bottleneck, IsTheLastChainThatDoesNotWaitForItsInput) {
  Statistics statistics = ten_seconds();
  set_waits(statistics, 1, 4.9, 0);
  EXPECT_EQ(statistics.bottleneck(), "4:shuffle");
  set_waits(statistics, 1, 5.1, 0);
  EXPECT_EQ(statistics.bottleneck(), "0:source") << "the busiest of its chain";
  statistics.stages[1].busy_seconds = 4.5;
  EXPECT_EQ(statistics.bottleneck(), "1:batch");
}

TEST(Bottleneck, IsTheBusiestMapOfABodyThatKeepsItsRingFull) {
  Statistics statistics = ten_seconds();
  set_waits(statistics, 1, 9, 0);
  set_waits(statistics, 0, 0, 3.1);
  EXPECT_EQ(statistics.bottleneck(), "3:mask");
  statistics.stages[2].busy_seconds = 7;
  EXPECT_EQ(statistics.bottleneck(), "2:parse");
  set_waits(statistics, 0, 0, 2.9);
  EXPECT_EQ(statistics.bottleneck(), "0:source");
}

TEST(Bottleneck, IsWhatTheWorkersDoMostWhenAllHaveWork) {
  Statistics statistics = ten_seconds();
  set_waits(statistics, 1, 9, 0);
  set_waits(statistics, 0, 0, 3.1);
  statistics.stages[4].busy_seconds = 8;
  EXPECT_EQ(statistics.bottleneck(), "3:mask") << "nobody knows how many workers there are";
  statistics.threads = 4;  // 26 s of 40
  EXPECT_FALSE(statistics.limited_by_workers());
  EXPECT_EQ(statistics.bottleneck(), "3:mask");
  statistics.threads = 3;
  EXPECT_TRUE(statistics.limited_by_workers());
  EXPECT_EQ(statistics.bottleneck(), "4:shuffle");
  statistics.stages[4].busy_seconds = 9;
  EXPECT_FALSE(statistics.limited_by_workers()) << "a serial chain has no room";
  statistics.threads = 1;
  EXPECT_EQ(statistics.bottleneck(), "4:shuffle");
}

TEST(Bottleneck, IsTheStorageWhenEveryChainWaits) {
  Statistics statistics = ten_seconds();
  set_waits(statistics, 1, 9, 0);
  set_waits(statistics, 0, 8, 0);
  EXPECT_EQ(statistics.bottleneck(), "storage");
}

TEST(Bottleneck, WeighsTheWaitsOfLanesByTheirNumber) {
  Statistics statistics = ten_seconds();
  set_waits(statistics, 1, 9, 0);
  for (StageReport& stage : statistics.stages) stage.copies = stage.segment == 0 ? 4 : 1;
  set_waits(statistics, 0, 19, 0);
  EXPECT_EQ(statistics.bottleneck(), "0:source") << "4 lanes have waited 19 of 40 s";
  set_waits(statistics, 0, 21, 0);
  EXPECT_EQ(statistics.bottleneck(), "storage");
}

TEST(PipelineStatistics, CountRowsAndBytesOfEveryOperator) {
  constexpr int64_t kRows = 100000;
  Pipeline pipeline =
      Dataset::range(0, kRows).add("value", int64_t{1}).batch(32, {.drop_remainder = false}).start({.threads = 2});
  int64_t rows = 0;
  while (const auto batch = pipeline.next()) rows += batch->num_rows();
  ASSERT_EQ(rows, kRows);
  const Statistics statistics = pipeline.stats();
  const int64_t value_bytes = kRows * static_cast<int64_t>(sizeof(int64_t));
  ASSERT_EQ(statistics.stages.size(), 3U) << statistics.to_string();
  for (const StageReport& stage : statistics.stages) {
    EXPECT_EQ(stage.rows, kRows) << stage.name;
    EXPECT_EQ(stage.bytes, value_bytes) << stage.name;
    EXPECT_GT(stage.busy_seconds, 0) << stage.name;
  }
  EXPECT_TRUE(statistics.stages[1].parallel);
  EXPECT_FALSE(statistics.stages[0].parallel);
  EXPECT_GT(statistics.distinct_workers, 0);
}

TEST(PipelineStatistics, ARingIsNeverFullerThanItsCreditsAndFillsWhileNobodyReads) {
  // 2 * threads + 2 slots of a segment with maps, and those of prefetch.
  Pipeline pipeline = Dataset::range(0, 1 << 20).repeat().add("value", int64_t{1}).prefetch(3).start({.threads = 2});
  constexpr int64_t kCredits = 2 * 2 + 2 + 3;
  ASSERT_TRUE(pipeline.next().has_value());
  // Nobody reads any more: the ring fills, and the wait of its chain, which does not end, becomes most of the time.
  Statistics statistics;
  do {
    std::this_thread::yield();
    statistics = pipeline.stats();
  } while (statistics.stages.back().waiting_for_output_seconds < 0.9 * statistics.wall_seconds);
  EXPECT_EQ(statistics.stages.back().queue_high_water, kCredits) << statistics.to_string();
  EXPECT_GT(statistics.buffer_bytes, 0);
  EXPECT_GT(statistics.fresh_buffers, 0);
}

// Until its ring has been full for most of the time, for nobody reads.
StageReport full_ring(const Pipeline& pipeline, size_t stage) {
  Statistics statistics;
  do {
    std::this_thread::yield();
    statistics = pipeline.stats();
  } while (statistics.stages[stage].waiting_for_output_seconds <
           0.9 * static_cast<double>(statistics.stages[stage].copies) * statistics.wall_seconds);
  return statistics.stages[stage];
}

TEST(PipelineStatistics, OfLargeBlocksARingTakesFewAndCountsAsFull) {
  // 4 MiB each. With a map on one thread no block is ready before one that was begun earlier.
  const Dataset batches = Dataset::range(0, 1 << 20).repeat().batch(1 << 19);
  for (const auto& [dataset, threads] : {std::pair(batches, 2), std::pair(batches.add("value", int64_t{1}), 1)}) {
    for (const int prefetched : {0, 1, 5}) {
      Pipeline pipeline = (prefetched > 0 ? dataset.prefetch(prefetched) : dataset).start({.threads = threads});
      ASSERT_TRUE(pipeline.next().has_value());
      const StageReport ring = full_ring(pipeline, 2);
      EXPECT_EQ(ring.queue, std::max(1, prefetched) + 1) << threads;
      EXPECT_EQ(ring.queue_slots, ring.queue);
      EXPECT_EQ(ring.queue_high_water, ring.queue);
    }
  }
}

TEST(PipelineStatistics, OfLargeRecordsALaneHasOneReady) {
  const test::TemporaryFolder folder;
  constexpr int64_t kRecords = 8;
  for (int64_t shard = 0; shard < 2; ++shard) {
    RecordWriter writer(folder.path(std::to_string(shard)));
    for (int64_t i = 0; i < kRecords; ++i) writer.write(std::string(3 << 20, 'x'));
    writer.close();
  }
  Pipeline pipeline = Dataset::tfrecord(Shards::glob(folder.path("*")), {.cycle_length = 2}).start({.threads = 2});
  ASSERT_TRUE(pipeline.next().has_value());
  const StageReport lanes = full_ring(pipeline, 0);
  EXPECT_EQ(lanes.queue_high_water, 1);
  EXPECT_EQ(lanes.queue_slots, 2) << "one of each of the two lanes";
  int64_t rows = 1;
  while (pipeline.next()) ++rows;
  EXPECT_EQ(rows, 2 * kRecords);
}

// The first batch waits until as many others as possible have been made.
TEST(LargeBlocks, WorkersGoOnBehindASlowOneAndKeepTheOrder) {
  constexpr int64_t kBatch = 1 << 18;  // 2 MiB
  constexpr int64_t kBatches = 24;
  const WorkerLimit workers(4);  // also on a machine of one core
  for (const int threads : {1, 2, 3, 4}) {
    // Its own and one of each other worker; with one worker nobody is left. The reader has taken none, so the slots of
    // the ring, 2 * threads + 2, are as many as there can be.
    const int64_t all_but_first = threads == 1 ? 0 : 2 * threads + 1;
    std::mutex mutex;
    std::condition_variable changed;
    int64_t others = 0;
    bool in_time = true;
    const RowFunction wait{.name = "wait",
                           .writes = {{.name = "first", .dtype = DType::kInt64, .shape = {}}},
                           .function = [&](const RowView& row, RowWriter& out) {
                             const int64_t first = row.values<int64_t>("value")[0];
                             {
                               std::unique_lock lock(mutex);
                               if (first == 0) {
                                 in_time = changed.wait_for(lock, std::chrono::seconds(60),
                                                            [&] { return others >= all_but_first; });
                               } else {
                                 ++others;
                                 changed.notify_all();
                               }
                             }
                             out.set("first", first);
                           }};
    Pipeline pipeline = Dataset::range(0, kBatch * kBatches).batch(kBatch).map(wait).start({.threads = threads});
    int64_t batch = 0;
    while (const auto element = pipeline.next()) {
      EXPECT_EQ(element->block().column("first").values<int64_t>(0)[0], batch * kBatch);
      ++batch;
    }
    EXPECT_EQ(batch, kBatches);
    EXPECT_TRUE(in_time) << threads << " threads: only " << others << " of " << all_but_first;
  }
}

TEST(PipelineStatistics, BuffersAreRecycled) {
  // Endless small blocks; what is in flight is bounded by the rings, so the number of buffers is too.
  Pipeline pipeline = Dataset::range(0, 1 << 20).repeat().add("value", int64_t{1}).batch(64).start({.threads = 2});
  for (int i = 0; i < 100000; ++i) ASSERT_TRUE(pipeline.next().has_value());
  const Statistics statistics = pipeline.stats();
  EXPECT_GE(statistics.stages.back().rows, 6400000);
  EXPECT_LT(statistics.fresh_buffers, 200) << statistics.to_string();
}

TEST(PipelineStatistics, AWaitThatGoesOnIsSeenFromAnotherThread) {
  const fs::path path = fs::temp_directory_path() / ("millrace_statistics_" + std::to_string(::getpid()) + ".tfrecord");
  {
    RecordWriter writer(path.string());
    for (int i = 0; i < 10; ++i) writer.write("record");
    writer.close();
  }
  InlineExecutor inline_executor;
  LocalStorage local(inline_executor);
  const auto storage = std::make_shared<test::ManualStorage>(local);
  {
    Pipeline pipeline =
        Dataset::tfrecord(Shards::glob(path.string())).batch(10).start({.threads = 2, .storage = storage});
    int64_t rows = 0;
    std::thread caller([&] {
      while (const auto batch = pipeline.next()) rows += batch->num_rows();
    });
    // No wait has ended yet; they must grow all the same until they are most of the time.
    while (pipeline.stats().bottleneck() != "storage") std::this_thread::yield();
    const Statistics before = pipeline.stats();
    const Statistics after = pipeline.stats();
    EXPECT_GT(after.consumer_waiting_seconds, before.consumer_waiting_seconds);
    EXPECT_GT(after.stages.back().waiting_for_input_seconds, before.stages.back().waiting_for_input_seconds);
    EXPECT_LE(after.consumer_waiting_seconds, after.wall_seconds);
    for (const StageReport& stage : after.stages) {
      EXPECT_LE(stage.waiting_for_input_seconds, stage.copies * after.wall_seconds) << stage.name;
    }
    storage->release();
    caller.join();
    EXPECT_EQ(rows, 10);
  }
  fs::remove(path);
}

TEST(Statistics, CountThePaddingOfBatchesWhereItIsDone) {
  const Dataset batches = Dataset::range(0, 10'000).padded_batch(10);
  EXPECT_NE(batches.explain().find("parallel body [2:padded_batch.assemble]"), std::string::npos) << batches.explain();
  Pipeline pipeline = batches.start({.threads = 2});
  while (pipeline.next()) {
  }
  const Statistics statistics = pipeline.stats();
  const auto stage = [&](std::string_view name) {
    const auto found = std::find_if(statistics.stages.begin(), statistics.stages.end(),
                                    [name](const StageReport& report) { return report.name == name; });
    EXPECT_NE(found, statistics.stages.end()) << name;
    return *found;
  };
  EXPECT_FALSE(stage("1:padded_batch").parallel);
  EXPECT_EQ(stage("1:padded_batch").rows, 10'000);
  EXPECT_TRUE(stage("2:padded_batch.assemble").parallel);
  EXPECT_EQ(stage("2:padded_batch.assemble").rows, 10'000);
  EXPECT_EQ(stage("2:padded_batch.assemble").bytes, 80'000);
}

TEST(Statistics, EndWithTheRowsThatWereDelivered) {
  const test::TemporaryFolder folder;
  RecordWriter writer(folder.path("a.tfrecord"));
  for (int i = 0; i < 10'000; ++i) writer.write(std::string(100, 'x'));
  writer.close();
  const Dataset records = Dataset::tfrecord(Shards::glob(folder.path("*")));
  Pipeline pipeline = records.shuffle(1'000).start({.threads = 2});
  while (pipeline.next()) {
  }
  EXPECT_EQ(pipeline.stats().stages.back().name, "2:shuffle");
  EXPECT_EQ(pipeline.stats().stages.back().rows, 10'000) << pipeline.stats().to_string();
}

TEST(Statistics, ShowThatBatchesArePaddedInParallelWhateverFollows) {
  const Dataset batches = Dataset::range(0, 100).padded_batch(10);
  for (const Dataset& dataset : {batches.take(3), batches.shuffle(4), batches.padded_batch(2)}) {
    EXPECT_NE(dataset.explain().find("parallel body [2:padded_batch.assemble]"), std::string::npos)
        << dataset.explain();
  }
}

}  // namespace
}  // namespace millrace::statistics_test
