#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"

namespace millrace::error_statistics_test {
namespace {

namespace fs = std::filesystem;

constexpr int kRecords = 1000;
constexpr int kBad = 5;
constexpr int64_t kFrame = 16 + 24;  // bytes of a record in the file: lengths, CRCs and 24 bytes of payload

/// A shard of equal records, one of them damaged: what was lost must be seen in the statistics, also where the errors
/// themselves are ignored.
class ErrorStatistics : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    RecordWriter writer(path());
    for (int r = 0; r < kRecords; ++r) writer.write(std::string(24, 'x'));
    writer.close();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path() const { return (folder_ / "a.tfrecord").string(); }
  // Byte 8 is in the CRC of the length, byte 12 in the payload.
  void damage(int record, int byte) const {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(kFrame * record + byte);
    file.seekg(at);
    const int was = file.get();
    file.seekp(at);
    file.put(static_cast<char>(was ^ 1));
  }
  Dataset records() const { return Dataset::tfrecord(Shards::files({path()})); }

  static Statistics statistics_of(const Dataset& dataset, int threads) {
    const WorkerLimit limit(threads);
    Pipeline pipeline = dataset.start({.threads = threads});
    while (pipeline.next()) {
    }
    return pipeline.stats();
  }
  static StageReport stage(const Statistics& statistics, const std::string& ends) {
    for (const StageReport& report : statistics.stages) {
      if (report.name.ends_with(ends)) return report;
    }
    ADD_FAILURE() << "no stage " << ends;
    return {};
  }
  static void expect_stage(const Statistics& statistics, const std::string& ends, int64_t rows, int64_t errors,
                           int64_t lost_bytes) {
    const StageReport report = stage(statistics, ends);
    EXPECT_EQ(report.rows, rows) << ends;
    EXPECT_EQ(report.errors, errors) << ends;
    EXPECT_EQ(report.lost_bytes, lost_bytes) << ends;
  }

  fs::path folder_ =
      fs::temp_directory_path() / fmt::format("millrace_error_statistics_{}_{}", ::getpid(),
                                              testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(ErrorStatistics, OfABadLengthCountTheRestOfTheShardAsLost) {
  damage(kBad, 8);
  for (const int threads : {1, 4}) {
    const Statistics statistics = statistics_of(records().ignore_errors(), threads);
    const int64_t lost = kFrame * (kRecords - kBad);
    expect_stage(statistics, ":tfrecord.read", kBad, 1, lost);
    expect_stage(statistics, ":tfrecord", kBad, 1, lost);
    expect_stage(statistics, ":ignore_errors", kBad, 1, lost);
    EXPECT_THAT(statistics.to_string(), testing::HasSubstr("errors"));
    EXPECT_THAT(statistics.to_string(), testing::HasSubstr("lost bytes"));
    EXPECT_THAT(statistics.to_string(), testing::HasSubstr(fmt::format("      1 {:>12}\n", lost)));
  }
}

TEST_F(ErrorStatistics, OfBadPayloadsCountTheirRecordsAsLost) {
  damage(kBad, 12);
  damage(700, 12);
  const Statistics statistics = statistics_of(records().ignore_errors().batch(10), 2);
  expect_stage(statistics, ":tfrecord.read", kRecords - 2, 2, 2 * kFrame);
  expect_stage(statistics, ":ignore_errors", kRecords - 2, 2, 2 * kFrame);
  expect_stage(statistics, ":batch", kRecords - 2, 0, 0);
}

TEST_F(ErrorStatistics, CountErrorsThatNestedInputsIgnore) {
  damage(kBad, 12);
  const Statistics statistics =
      statistics_of(Dataset::interleave({records().ignore_errors(), records()}).ignore_errors(), 2);
  // The operators of the first nested input come first.
  expect_stage(statistics, ":ignore_errors", kRecords - 1, 1, kFrame);
  expect_stage(statistics, ":interleave", 2 * kRecords - 2, 1, kFrame);
}

TEST_F(ErrorStatistics, CountRowsThatAMapRefuses) {
  const Dataset refusing = Dataset::range(0, 100).map(
      RowFunction{.name = "refuses 7", .writes = {}, .function = [](const RowView& row, RowWriter&) {
                    if (row.values<int64_t>("value")[0] == 7) throw std::domain_error("7");
                  }});
  const Statistics statistics = statistics_of(refusing.ignore_errors(), 2);
  expect_stage(statistics, ":range", 100, 0, 0);
  expect_stage(statistics, ":map", 99, 1, 0);
  expect_stage(statistics, ":ignore_errors", 99, 1, 0);
}

}  // namespace
}  // namespace millrace::error_statistics_test
