#include "pipeline/statistics.h"

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "formats/storage/local.h"
#include "formats/tfrecord/writer.h"
#include "pipeline/dataset.h"

namespace millrace {
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

TEST(PipelineStatistics, BuffersAreRecycled) {
  // Endless small blocks; what is in flight is bounded by the rings, so the number of buffers is too.
  Pipeline pipeline = Dataset::range(0, 1 << 20).repeat().add("value", int64_t{1}).batch(64).start({.threads = 2});
  for (int i = 0; i < 100000; ++i) ASSERT_TRUE(pipeline.next().has_value());
  const Statistics statistics = pipeline.stats();
  EXPECT_GE(statistics.stages.back().rows, 6400000);
  EXPECT_LT(statistics.fresh_buffers, 200) << statistics.to_string();
}

/// A storage that opens nothing until it is told to.
class HeldStorage final : public Storage {
 public:
  explicit HeldStorage(Storage& wrapped) : wrapped_(wrapped) {}
  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override {
    {
      const std::lock_guard lock(mutex_);
      if (!released_) {
        held_.emplace_back(path, std::move(sink));
        return;
      }
    }
    wrapped_.open(path, std::move(sink));
  }
  std::vector<std::string> glob(const std::string& pattern) override { return wrapped_.glob(pattern); }
  void release() {
    std::vector<std::pair<std::string, std::shared_ptr<OpenSink>>> held;
    {
      const std::lock_guard lock(mutex_);
      released_ = true;
      held.swap(held_);
    }
    for (auto& [path, sink] : held) wrapped_.open(path, std::move(sink));
  }

 private:
  Storage& wrapped_;
  std::mutex mutex_;
  bool released_ = false;
  std::vector<std::pair<std::string, std::shared_ptr<OpenSink>>> held_;
};

TEST(PipelineStatistics, AWaitThatGoesOnIsSeenFromAnotherThread) {
  const fs::path path = fs::temp_directory_path() / ("millrace_statistics_" + std::to_string(::getpid()) + ".tfrecord");
  {
    RecordWriter writer(path.string());
    for (int i = 0; i < 10; ++i) writer.write("record");
    writer.close();
  }
  InlineExecutor inline_executor;
  LocalStorage local(inline_executor);
  const auto storage = std::make_shared<HeldStorage>(local);
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

TEST(Statistics, ShowThatBatchesArePaddedInParallelWhateverFollows) {
  const Dataset batches = Dataset::range(0, 100).padded_batch(10);
  for (const Dataset& dataset : {batches.take(3), batches.shuffle(4), batches.padded_batch(2)}) {
    EXPECT_NE(dataset.explain().find("parallel body [2:padded_batch.assemble]"), std::string::npos)
        << dataset.explain();
  }
}

}  // namespace
}  // namespace millrace
