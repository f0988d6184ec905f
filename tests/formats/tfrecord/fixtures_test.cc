#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/storage/local.h"
#include "tests/support/injecting_storage.h"
#include "tests/support/places.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tfrecord_fixtures.h"

namespace millrace::fixtures_test {
namespace {

using nlohmann::json;
using test::check_corrupt_fixtures;
using test::check_intact_fixtures;
using test::FixtureReading;
using test::FixtureReport;
using test::InjectingStorage;
using test::InjectionOptions;
using test::ReadFixture;
using test::ReadShard;
using test::shard_reader;
using ::testing::IsEmpty;

const std::string kFolder = test::data_path("tfrecord");
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

// Each a test of its own, so that they run beside each other.
class ChunkSize : public FixturesTest, public ::testing::WithParamInterface<size_t> {};
INSTANTIATE_TEST_SUITE_P(, ChunkSize, ::testing::Values(13, 1000));

TEST_P(ChunkSize, ChangesNothingInIntactFiles) { expect_intact_good(local_, {.chunk_bytes = GetParam()}); }

TEST_P(ChunkSize, ChangesNothingInCorruptFiles) { expect_corrupt_good(local_, {.chunk_bytes = GetParam()}); }

// Every place in a header, a member or a stream is where a chunk ends; the long files have no other places.
constexpr size_t kShortFile = 11000;

TEST_F(FixturesTest, ChunksOfOneByteChangeNothingInIntactFiles) {
  expect_intact_good(local_, {.chunk_bytes = 1}, 30, kShortFile);
}

TEST_F(FixturesTest, ChunksOfOneByteChangeNothingInCorruptFiles) {
  expect_corrupt_good(local_, {.chunk_bytes = 1}, kCorrupt, SIZE_MAX, /*goes_on=*/false);
}

class ReadSize : public FixturesTest, public ::testing::WithParamInterface<size_t> {};
INSTANTIATE_TEST_SUITE_P(, ReadSize, ::testing::Values(test::kSanitized ? 5 : 1, 17, 5000));

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

/// A folder of files with planted faults, of any names.
class FaultFolder : public FixturesTest {
 protected:
  FaultFolder() { std::filesystem::create_directory(folder_.path("corrupt")); }

  static std::string content(const std::string& name) { return test::read_file(kFolder + "/corrupt/" + name); }
  static json committed_manifest() { return json::parse(content("manifest.json")); }

  // `entry` is what the manifest says of it beside name and size.
  void add(json entry, const std::string& bytes) {
    const std::string name = fmt::format("case_{:03}.tfrecord", entries_.size());
    entry["file"] = name;
    entry["file_bytes"] = bytes.size();
    entries_.push_back(std::move(entry));
    test::write_file(folder_.path("corrupt/" + name), bytes);
  }
  FixtureReport check(const ReadFixture& read) {
    const json manifest{{"base", committed_manifest().at("base")}, {"files", entries_}};
    test::write_file(folder_.path("corrupt/manifest.json"), manifest.dump());
    return check_corrupt_fixtures(read, folder_.path());
  }

  const test::TemporaryFolder folder_;
  std::vector<json> entries_;
};

TEST_F(FaultFolder, IsJudgedByWhatIsInTheFilesAndNotByTheirNames) {
  const json manifest = committed_manifest();
  for (const json& entry : manifest.at("files")) add(entry, content(entry.at("file")));
  const FixtureReport report = check(shard_reader(local_));
  EXPECT_THAT(report.failures, IsEmpty());
  EXPECT_EQ(report.num_passed, kCorrupt);
}

// Bits flipped and ends cut off anywhere, in headers, lengths, CRCs, payloads, deflate data and trailers.
class FreshFaults : public FaultFolder, public ::testing::WithParamInterface<const char*> {
 protected:
  static constexpr int kFaults = 200;

  void SetUp() override {
    const std::string compression = GetParam();
    const std::string name = compression.empty()     ? "base.tfrecord"
                             : compression == "GZIP" ? "base.gzip.tfrecord"
                                                     : "base.zlib.tfrecord";
    const std::string good = content(name);
    const json records = committed_manifest().at("base").at("records");
    std::mt19937_64 random(20261122);
    for (int i = 0; i < kFaults; ++i) {
      std::string bytes = good;
      const size_t place = random() % good.size();
      if (i % 2 == 0) {
        bytes[place] = static_cast<char>(bytes[place] ^ 1 << random() % 8);
      } else {
        bytes.resize(place);
      }
      // Those that end before the fault. Of compressed bytes nothing is promised here.
      size_t before = 0;
      while (compression.empty() && before + 1 < records.size() && records[before + 1].at("offset") <= place) ++before;
      add({{"compression", compression}, {"intact_before", before}}, bytes);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(, FreshFaults, ::testing::Values("", "GZIP", "ZLIB"));

TEST_P(FreshFaults, AreOneClearErrorEach) {
  const FixtureReport report = check(shard_reader(local_));
  EXPECT_THAT(report.failures, IsEmpty());
  EXPECT_EQ(report.num_passed, kFaults);
}

// The judge is no good when it lets such readers pass.
TEST_P(FreshFaults, AreNotReadByAReaderThatIsSilent) {
  const ReadFixture right = shard_reader(local_);
  const FixtureReport silent = check([&right](const FixtureReading& reading) {
    ReadShard read = right(reading);
    read.faults.clear();
    return read;
  });
  EXPECT_GT(silent.failures.size(), kFaults * 9U / 10);
}

TEST_P(FreshFaults, AreNotReadByAReaderThatLosesOrChangesARecord) {
  const ReadFixture right = shard_reader(local_);
  size_t num_readings = 0;  // with records, of as many files
  const auto with = [&](auto&& change) {
    num_readings = 0;
    return check([&, change](const FixtureReading& reading) {
      ReadShard read = right(reading);
      if (!read.records.empty()) {
        if (reading.stop_at_error && !reading.num_records) ++num_readings;
        change(read);
      }
      return read;
    });
  };
  const FixtureReport losing = with([](ReadShard& read) { read.records.pop_back(); });
  EXPECT_GE(losing.failures.size(), num_readings);
  const FixtureReport changing = with([](ReadShard& read) { read.records.back().payload += 'x'; });
  EXPECT_GE(changing.failures.size(), num_readings);
}

}  // namespace
}  // namespace millrace::fixtures_test
