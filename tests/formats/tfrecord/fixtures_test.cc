#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/storage/local.h"
#include "tests/support/injecting_storage.h"
#include "tests/support/tfrecord_fixtures.h"

namespace millrace {
namespace {

using test::check_corrupt_fixtures;
using test::check_intact_fixtures;
using test::FixtureReport;
using test::InjectingStorage;
using test::InjectionOptions;
using test::shard_reader;
using ::testing::IsEmpty;

const std::string kFolder = std::string(MILLRACE_TEST_DATA) + "/tfrecord";
constexpr int kIntact = 2 * 20;  // each by declaration and by content
constexpr int kCorrupt = 135;

class FixturesTest : public ::testing::Test {
 protected:
  static void expect_all_good(Storage& storage, const ShardReaderOptions& options) {
    expect_intact_good(storage, options);
    expect_corrupt_good(storage, options);
  }
  static void expect_intact_good(Storage& storage, const ShardReaderOptions& options, int num_files = kIntact,
                                 size_t max_file_bytes = SIZE_MAX) {
    const FixtureReport intact = check_intact_fixtures(shard_reader(storage, options), kFolder, max_file_bytes);
    EXPECT_THAT(intact.failures, IsEmpty());
    EXPECT_EQ(intact.num_passed, num_files);
  }
  static void expect_corrupt_good(Storage& storage, const ShardReaderOptions& options, int num_files = kCorrupt,
                                  size_t max_file_bytes = SIZE_MAX, bool goes_on = true) {
    const FixtureReport corrupt =
        check_corrupt_fixtures(shard_reader(storage, options), kFolder, max_file_bytes, goes_on);
    EXPECT_THAT(corrupt.failures, IsEmpty());
    EXPECT_EQ(corrupt.num_passed, num_files);
  }
  InlineExecutor executor_;
  LocalStorage local_{executor_};
};

TEST_F(FixturesTest, EveryFileOfTensorFlowIsReadExactlyAndEveryPlantedFaultIsOneClearError) {
  expect_all_good(local_, {});
}

/// Reads everything in one thread, in very many steps: ThreadSanitizer makes that a hundred times as long and has
/// nothing to see.
class FixturesInManySteps : public FixturesTest {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "one thread";
#endif
  }
};

// Each a test of its own, so that they run beside each other.
class ChunkSize : public FixturesInManySteps, public ::testing::WithParamInterface<size_t> {};
INSTANTIATE_TEST_SUITE_P(, ChunkSize, ::testing::Values(13, 1000));

TEST_P(ChunkSize, ChangesNothingInIntactFiles) { expect_intact_good(local_, {.chunk_bytes = GetParam()}); }

TEST_P(ChunkSize, ChangesNothingInCorruptFiles) { expect_corrupt_good(local_, {.chunk_bytes = GetParam()}); }

// Every place in a header, a member or a stream is where a chunk ends; the long files have no other places.
constexpr size_t kShortFile = 11000;

TEST_F(FixturesInManySteps, ChunksOfOneByteChangeNothingInIntactFiles) {
  expect_intact_good(local_, {.chunk_bytes = 1}, 30, kShortFile);
}

TEST_F(FixturesInManySteps, ChunksOfOneByteChangeNothingInCorruptFiles) {
  expect_corrupt_good(local_, {.chunk_bytes = 1}, kCorrupt, SIZE_MAX, /*goes_on=*/false);
}

class ReadSize : public FixturesInManySteps, public ::testing::WithParamInterface<size_t> {};
INSTANTIATE_TEST_SUITE_P(, ReadSize, ::testing::Values(1, 17, 5000));

TEST_P(ReadSize, AndRetriableErrorsChangeNothing) {
  InjectingStorage storage(local_, {.seed = 7 + GetParam(), .max_read_bytes = GetParam(), .retriable_error_rate = 0.2});
  expect_all_good(storage, {.chunk_bytes = 4096});
  EXPECT_GT(storage.counts().retriable_errors, 100U);
  EXPECT_GT(storage.counts().short_reads, 100U);
}

TEST_F(FixturesTest, AnswersFromAnotherThreadChangeNothing) {
  using std::chrono::microseconds;
  for (const size_t read_ahead : {0, 1, 2}) {
    InjectingStorage storage(local_, {.min_latency = microseconds(1),
                                      .max_latency = microseconds(30),
                                      .max_read_bytes = 3000,
                                      .retriable_error_rate = 0.1});
    expect_all_good(storage, {.chunk_bytes = 1000, .read_ahead = read_ahead});
  }
}

}  // namespace
}  // namespace millrace
