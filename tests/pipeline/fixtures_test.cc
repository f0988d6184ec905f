#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "millrace/formats/storage/local.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/pipeline/pipeline_fixtures.h"
#include "tests/support/injecting_storage.h"
#include "tests/support/places.h"
#include "tests/support/tfrecord_fixtures.h"

namespace millrace::fixtures_test {
namespace {

namespace fs = std::filesystem;

using test::check_corrupt_fixtures;
using test::check_intact_fixtures;
using test::FixtureReading;
using test::FixtureReport;
using test::planted_faults;
using test::PlantedFault;
using test::ReadFixture;
using test::ReadShard;
using test::run_records;
using ::testing::IsEmpty;

const std::string kFolder = test::data_path("tfrecord");
constexpr int kIntact = 2 * 20;  // each by declaration and by content
constexpr int kCorrupt = 135;
constexpr size_t kBaseRecords = 12;

/// TensorFlow's files and the broken ones, each through a running pipeline. A hang is seen by the limit of the test.
class PipelineFixtures : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(links_); }
  void TearDown() override { fs::remove_all(links_); }

  ReadFixture through_pipeline(const StartOptions& options) const {
    return [this, options](const FixtureReading& reading) {
      const Dataset records = Dataset::tfrecord(test::fixture_shards(reading, links_.string()),
                                                {.cycle_length = 1, .compression = reading.compression});
      return run_records(reading.stop_at_error ? records : records.ignore_errors(), options);
    };
  }

  void expect_all_good(const StartOptions& options) const {
    const WorkerLimit limit(options.threads);
    const FixtureReport intact = check_intact_fixtures(through_pipeline(options), kFolder);
    EXPECT_THAT(intact.failures, IsEmpty());
    EXPECT_EQ(intact.num_passed, kIntact);
    const FixtureReport corrupt = check_corrupt_fixtures(through_pipeline(options), kFolder);
    EXPECT_THAT(corrupt.failures, IsEmpty());
    EXPECT_EQ(corrupt.num_passed, kCorrupt);
  }

  static std::string base(std::optional<Compression> compression) {
    const char* kind = compression == Compression::kGzip ? ".gzip" : compression == Compression::kZlib ? ".zlib" : "";
    return fmt::format("{}/corrupt/base{}.tfrecord", kFolder, kind);
  }

  fs::path links_ =
      fs::temp_directory_path() / fmt::format("millrace_pipeline_fixtures_{}_{}", ::getpid(),
                                              testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(PipelineFixtures, AreReadExactlyAndEveryPlantedFaultIsOneClearErrorWithOneThread) {
  expect_all_good({.threads = 1});
}

TEST_F(PipelineFixtures, AreReadExactlyAndEveryPlantedFaultIsOneClearErrorWithEightThreads) {
  expect_all_good({.threads = 8});
}

TEST_F(PipelineFixtures, AreReadExactlyAndEveryPlantedFaultIsOneClearErrorOnASlowUnreliableStorage) {
  InlineExecutor inline_executor;
  LocalStorage local(inline_executor);
  const auto storage = std::make_shared<test::InjectingStorage>(
      local, test::InjectionOptions{
                 .max_latency = std::chrono::microseconds(50), .max_read_bytes = 7000, .retriable_error_rate = 0.1});
  expect_all_good({.threads = 2, .storage = storage});
  EXPECT_GT(storage->counts().retriable_errors, 100U);
  EXPECT_GT(storage->counts().short_reads, 100U);
}

// The faulty file second of three, with good ones of its kind beside it.
class FaultBetweenGoodFiles : public PipelineFixtures {
 protected:
  static Dataset records(const PlantedFault& fault, size_t cycle_length) {
    const std::string good = base(fault.compression);
    return Dataset::tfrecord(Shards::files({good, kFolder + "/corrupt/" + fault.name, good}),
                             {.cycle_length = cycle_length, .compression = fault.compression});
  }
  // The base file's records, so and so often.
  static std::vector<std::string> payloads(const ReadShard& read) {
    std::vector<std::string> found;
    for (const test::ReadRecord& record : read.records) found.push_back(record.payload);
    return found;
  }
  const WorkerLimit limit_{8};
  const std::vector<std::string> base_ =
      payloads(run_records(Dataset::tfrecord(Shards::files({base(std::nullopt)})), {}));
};

TEST_F(FaultBetweenGoodFiles, LetsExactlyTheRecordsBeforeItPass) {
  ASSERT_EQ(base_.size(), kBaseRecords);
  const std::vector<PlantedFault> faults = planted_faults(kFolder);
  ASSERT_EQ(faults.size(), static_cast<size_t>(kCorrupt));
  for (const PlantedFault& fault : faults) {
    std::vector<std::string> expected = base_;
    expected.insert(expected.end(), base_.begin(), base_.begin() + static_cast<std::ptrdiff_t>(fault.walk.num_before));
    if (!fault.walk.has_fault()) expected.insert(expected.end(), base_.begin(), base_.end());
    const ReadShard found = run_records(records(fault, 1), {.threads = 2});
    EXPECT_EQ(payloads(found), expected) << fault.name;
    ASSERT_EQ(found.faults.size(), fault.walk.has_fault() ? 1U : 0U) << fault.name;
    if (!fault.walk.has_fault()) continue;
    const Error& error = found.faults[0].error;
    EXPECT_EQ(error.shard, kFolder + "/corrupt/" + fault.name);
    EXPECT_EQ(error.record, static_cast<int64_t>(fault.walk.num_before)) << fault.name;
  }
}

TEST_F(FaultBetweenGoodFiles, ComesInItsTurnWhenShardsAreInterleaved) {
  for (const PlantedFault& fault : planted_faults(kFolder)) {
    if (!fault.walk.has_fault()) continue;
    // Three files take turns; the faulty one is the second.
    std::vector<std::string> expected;
    for (size_t i = 0; i < fault.walk.num_before; ++i) expected.insert(expected.end(), 3, base_[i]);
    if (fault.walk.num_before < kBaseRecords) expected.push_back(base_[fault.walk.num_before]);
    for (const int threads : {1, 4}) {
      const ReadShard found = run_records(records(fault, 3), {.threads = threads});
      EXPECT_EQ(payloads(found), expected) << fault.name << ", " << threads << " threads";
      EXPECT_EQ(found.faults.size(), 1U) << fault.name;
    }
  }
}

TEST_F(FaultBetweenGoodFiles, ComesOnceAndInOnePlaceBehindShuffleAndBatch) {
  for (const PlantedFault& fault : planted_faults(kFolder)) {
    const Dataset dataset = records(fault, 2).shuffle(8, {.seed = 5}).batch(3).prefetch(2);
    const ReadShard expected = run_records(dataset, {.threads = 1});
    EXPECT_EQ(expected.faults.size(), fault.walk.has_fault() ? 1U : 0U) << fault.name;
    for (const int threads : {2, 8}) {
      const ReadShard found = run_records(dataset, {.threads = threads});
      EXPECT_EQ(found.records, expected.records) << fault.name << ", " << threads << " threads";
      ASSERT_EQ(found.faults.size(), expected.faults.size()) << fault.name;
      if (fault.walk.has_fault()) {
        EXPECT_EQ(found.faults[0].error.to_string(), expected.faults[0].error.to_string());
      }
    }
  }
}

}  // namespace
}  // namespace millrace::fixtures_test
