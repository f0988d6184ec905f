#include "millrace/ops/keep/cache.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/tfrecord/writer.h"
#include "millrace/ops/batch/batch.h"
#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/flow/shuffle.h"
#include "millrace/ops/flow/take.h"
#include "millrace/ops/sources/range.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/support/operator_chain.h"
#include "tests/support/temporary_folder.h"

namespace millrace::cache_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Chain range(int64_t count) { return Chain::source<RangeOperator>(0, count, 1, "x"); }

TEST(CacheTest, EveryEpochHasTheElementsOfTheFirst) {
  EXPECT_THAT(range(3).then<CacheOperator>().then<RepeatOperator>(2).elements(),
              ElementsAre("x=0", "x=1", "x=2", "x=0", "x=1", "x=2"));
  EXPECT_THAT(range(0).then<CacheOperator>().then<RepeatOperator>(2).elements(), IsEmpty());
  EXPECT_EQ(range(3).then<CacheOperator>().cardinality(), Cardinality::known(3));

  const Chain shuffled = range(50).then<ShuffleOperator>(50, ShuffleOptions{.seed = 3}, 0);
  const std::vector<std::string> once = shuffled.elements();
  const std::vector<std::string> uncached = shuffled.then<RepeatOperator>(3).elements();
  const std::vector<std::string> cached = shuffled.then<CacheOperator>().then<RepeatOperator>(3).elements();
  ASSERT_EQ(cached.size(), 150u);
  EXPECT_NE(cached, uncached);
  for (size_t i = 0; i < cached.size(); ++i) EXPECT_EQ(cached[i], once[i % 50]);
}

TEST(CacheTest, AnEpochThatIsReadInPartGivesTheSameToo) {
  const Chain shuffled = range(50).then<ShuffleOperator>(50, ShuffleOptions{.seed = 3}, 0);
  const std::vector<std::string> once = shuffled.elements();
  const std::vector<std::string> parts =
      shuffled.then<CacheOperator>().then<TakeOperator>(4).then<RepeatOperator>(2).elements();
  EXPECT_THAT(parts, ElementsAre(once[0], once[1], once[2], once[3], once[0], once[1], once[2], once[3]));
}

TEST(CacheTest, AnEndlessRepeatThatIsCutOffBeginsAnew) {
  EXPECT_THAT(
      range(3).then<CacheOperator>().then<RepeatOperator>(-1).then<TakeOperator>(4).then<RepeatOperator>(2).elements(),
      ElementsAre("x=0", "x=1", "x=2", "x=0", "x=0", "x=1", "x=2", "x=0"));
}

TEST(CacheTest, EpochsAndRowsAreThoseOfTheRun) {
  const test::Stream stream =
      range(5).then<BatchOperator>(2, BatchOptions{}).then<CacheOperator>().then<RepeatOperator>(2).run();
  EXPECT_THAT(stream.epochs, ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(stream.elements, ElementsAre("x=[0,1]", "x=[2,3]", "x=[4]", "x=[0,1]", "x=[2,3]", "x=[4]"));
  EXPECT_THAT(stream.rows, ElementsAre(2, 2, 1, 2, 2, 1));
}

TEST(CacheTest, ErrorsStayInTheirPlaces) {
  const char* const error = "error: parse: at 1";
  EXPECT_THAT(
      Chain::source<FaultyRange>(3, std::vector<int64_t>{1}).then<CacheOperator>().then<RepeatOperator>(2).elements(),
      ElementsAre("x=0", error, "x=2", "x=0", error, "x=2"));
}

TEST(CacheTest, InADatasetThatAFunctionMakesItPassesElementsOn) {
  const DatasetFunction nested{
      .name = "nested",
      .gives = {{.name = "value", .dtype = DType::kInt64, .shape = {}}},
      .make = [](const RowView& row) { return Dataset::range(0, row.value<int64_t>("value")).cache().repeat(2); }};
  Pipeline pipeline = Dataset::range(0, 4).flat_map(nested).start({.threads = 1});
  int elements = 0;
  while (pipeline.next()) ++elements;
  EXPECT_EQ(elements, 2 * (1 + 2 + 3));
}

class CacheOfShards : public ::testing::Test {
 protected:
  CacheOfShards() {
    RecordWriter writer(path_);
    for (int i = 0; i < kRecords; ++i) writer.write(std::to_string(i) + std::string(1000, 'x'));
    writer.close();
  }
  Dataset records() const { return Dataset::tfrecord(Shards::files({path_})); }

  static constexpr int kRecords = 3000;
  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.path("a.tfrecord");
};

TEST_F(CacheOfShards, TheFilesAreReadOnce) {
  const WorkerLimit limit(4);
  Pipeline pipeline = records().cache().repeat(3).batch(100).start({.threads = 2});
  int batches = 0;
  while (std::optional<Batch> batch = pipeline.next()) {
    const std::string_view first = batch->values<std::string_view>("record")[0];
    EXPECT_EQ(first, std::to_string(batches % 30 * 100) + std::string(1000, 'x'));
    ++batches;
    // After the first epoch the file may go.
    if (batches == 40) std::filesystem::remove(path_);
  }
  EXPECT_EQ(batches, 90);
  int num_found = 0;
  for (const StageReport& stage : pipeline.stats().stages) {
    if (stage.name.find("tfrecord") == std::string::npos) continue;
    EXPECT_EQ(stage.rows, kRecords) << stage.name;
    ++num_found;
  }
  EXPECT_GT(num_found, 0) << pipeline.stats().to_string();
}

TEST_F(CacheOfShards, GoesOnFromAStateInLaterEpochs) {
  const WorkerLimit limit(4);
  const Dataset dataset = records().shuffle(500, {.seed = 1}).cache().repeat(3).batch(100);
  const auto rest = [](Pipeline& pipeline) {
    std::vector<std::string> firsts;
    while (std::optional<Batch> batch = pipeline.next()) {
      firsts.emplace_back(batch->values<std::string_view>("record")[0].substr(0, 5));
    }
    return firsts;
  };
  for (const int batches : {7, 37, 61}) {
    Pipeline pipeline = dataset.start({.threads = 2});
    for (int i = 0; i < batches; ++i) ASSERT_TRUE(pipeline.next());
    const std::string state = pipeline.save().serialize();
    Pipeline resumed = dataset.start({.threads = 3, .state = PipelineState::parse(state)});
    EXPECT_EQ(rest(resumed), rest(pipeline)) << batches;
  }
}

TEST_F(CacheOfShards, ElementsBeyondThreeQuartersOfTheBudgetAreAnError) {
  const WorkerLimit limit(4);
  Pipeline pipeline = records().cache().repeat(2).batch(10).start({.threads = 1, .memory_budget = 3 << 20});
  try {
    while (pipeline.next()) {
    }
    FAIL() << "3 MB were kept within 2.25 MiB";
  } catch (const PipelineError& error) {
    EXPECT_THAT(error.what(), HasSubstr("memory_budget"));
    EXPECT_THAT(error.what(), HasSubstr("three quarters of the memory budget are 2359296"));
  }
  Pipeline enough = records().cache().repeat(2).batch(10).start({.threads = 1, .memory_budget = 16 << 20});
  int batches = 0;
  while (enough.next()) ++batches;
  EXPECT_EQ(batches, 600);
}

// Values of 40 kB: of 64 KiB that such a one is copied to, the rest stays free.
TEST(CacheTest, WhatStaysFreeInBuffersCountsAsKept) {
  const WorkerLimit limit(4);
  std::vector<std::string> values;
  for (int i = 0; i < 60; ++i) values.emplace_back(40'000, static_cast<char>('a' + i % 26));
  const Dataset dataset = Dataset::rows({{"value", values}, {"n", std::vector<int64_t>(60, 1)}}).cache().repeat(2);
  Pipeline pipeline = dataset.start({.threads = 1, .memory_budget = 4 << 20});
  try {
    while (pipeline.next()) {
    }
    FAIL() << "60 x 64 KiB were kept within 3 MiB";
  } catch (const PipelineError& error) {
    EXPECT_THAT(error.what(), HasSubstr("three quarters of the memory budget are 3145728"));
  }
  Pipeline enough = dataset.start({.threads = 1, .memory_budget = 8 << 20});
  int elements = 0;
  while (enough.next()) ++elements;
  EXPECT_EQ(elements, 120);
}

}  // namespace
}  // namespace millrace::cache_test
