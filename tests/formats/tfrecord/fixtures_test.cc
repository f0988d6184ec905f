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
using ::testing::IsEmpty;

const std::string kFolder = std::string(MILLRACE_TEST_DATA) + "/tfrecord";
constexpr int kIntact = 2 * 20;  // each by declaration and by content
constexpr int kCorrupt = 135;

class FixturesTest : public ::testing::Test {
 protected:
  void expect_all_good(Storage& storage, const ShardReaderOptions& options) {
    const FixtureReport intact = check_intact_fixtures(storage, kFolder, options);
    EXPECT_THAT(intact.failures, IsEmpty());
    EXPECT_EQ(intact.num_passed, kIntact);
    const FixtureReport corrupt = check_corrupt_fixtures(storage, kFolder, options);
    EXPECT_THAT(corrupt.failures, IsEmpty());
    EXPECT_EQ(corrupt.num_passed, kCorrupt);
  }
  InlineExecutor executor_;
  LocalStorage local_{executor_};
};

TEST_F(FixturesTest, EveryFileOfTensorFlowIsReadExactlyAndEveryPlantedFaultIsOneClearError) {
  expect_all_good(local_, {});
}

TEST_F(FixturesTest, ChunkSizesChangeNothing) {
  for (const size_t chunk_bytes : {1, 13, 1000}) {
    expect_all_good(local_, {.chunk_bytes = chunk_bytes});
  }
}

TEST_F(FixturesTest, ShortReadsAndRetriableErrorsChangeNothing) {
  for (const size_t max_read_bytes : {1, 17, 5000}) {
    InjectingStorage storage(
        local_, {.seed = 7 + max_read_bytes, .max_read_bytes = max_read_bytes, .retriable_error_rate = 0.2});
    expect_all_good(storage, {.chunk_bytes = 4096});
    EXPECT_GT(storage.counts().retriable_errors, 100U);
    EXPECT_GT(storage.counts().short_reads, 100U);
  }
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
