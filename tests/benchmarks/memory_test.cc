// The memory of dataset_bench as a process, with records of many sizes.
#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/formats/tfrecord/writer.h"
#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::memory_test {
namespace {

using test::ChildResult;
using test::run_child;
using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;

// What the process takes besides the buffers: code, libraries, stacks, allocations of other kinds.
constexpr double kConstantMb = 24;

class BoundedMemory : public testing::Test {
 protected:
  // `least` to `most` bytes, evenly on a logarithmic scale; of each `one_in` records one of `large` bytes.
  void write_shards(int shards, int records, double least, double most, int one_in = 0, size_t large = 0) {
    const CounterRng rng(1, operator_id("sizes"));
    const std::string bytes(std::max(static_cast<size_t>(most), large) + 1, 'x');
    for (int s = 0; s < shards; ++s) {
      RecordWriter writer(folder_.path(fmt::format("{}.tfrecord", s)));
      for (int r = 0; r < records; ++r) {
        const double at = rng.words(static_cast<uint64_t>(s * records + r))[0] / 4294967296.0;
        const auto size = static_cast<size_t>(least * std::pow(most / least, at));
        writer.write(std::string_view(bytes).substr(0, one_in > 0 && r % one_in == s % one_in ? large : size));
      }
      writer.close();
    }
    num_records_ = shards * records;
  }

  std::vector<std::string> command(int64_t batch, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {test::kDatasetBench,
                                          "read",
                                          "--shards",
                                          folder_.path("*.tfrecord"),
                                          "--batch",
                                          std::to_string(batch),
                                          "--batches",
                                          std::to_string(num_records_ / batch),
                                          "--json",
                                          "--watchdog",
                                          "60"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  void expect_within(int64_t budget_mb, const std::vector<int64_t>& batches, const std::string& stall_us) {
    for (const int64_t batch : batches) {
      const auto run = [&](const std::vector<std::string>& more) {
        const ChildResult result = run_child(command(batch, more));
        EXPECT_EQ(result.exit_code, 0) << result.err;
        return result.exit_code == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
      };
      const auto free = run({"--threads", "2"});
      for (const char* threads : {"1", "4"}) {
        for (const std::string& consumer : {std::string("0"), stall_us}) {
          const auto bounded =
              run({"--threads", threads, "--memory-mb", std::to_string(budget_mb), "--consumer-us", consumer});
          ASSERT_FALSE(HasFailure());
          fmt::print("budget {} MiB, batch {}, {} threads, consumer {} us: peak RSS {:.0f} MiB, buffers {:.0f} MiB\n",
                     budget_mb, batch, threads, consumer, bounded["peak_rss_mb"].get<double>(),
                     bounded["peak_buffer_mb"].get<double>());
          EXPECT_EQ(bounded["stream_hash"], free["stream_hash"]);
          EXPECT_LE(bounded["peak_rss_mb"].get<double>(), 1.1 * static_cast<double>(budget_mb) + kConstantMb);
        }
      }
    }
  }

  const TemporaryFolder folder_;
  int num_records_ = 0;
};

TEST_F(BoundedMemory, RecordsOfOneKilobyteToFourMegabytesInSixtyFourMebibytes) {
  write_shards(16, 24, 1000, 4e6);
  expect_within(64, {1, 4, 64}, "2000");
}

TEST_F(BoundedMemory, RecordsOfFiftyMegabytesAmongThem) {
  write_shards(4, 16, 1000, 1e6, 8, 50'000'000);
  expect_within(256, {1, 4}, "5000");
  expect_within(1024, {1, 4}, "5000");
}

TEST_F(BoundedMemory, WhatCannotBeDoneWithinTheBudgetIsOneLineThatSaysWhatItNeeds) {
  write_shards(2, 8, 1000, 1e6, 8, 20'000'000);
  const ChildResult record = run_child(command(1, {"--memory-mb", "64"}));
  EXPECT_EQ(record.exit_code, 1);
  EXPECT_THAT(record.err, AllOf(HasSubstr("memory_budget: the record's length is 20000000 bytes, the limit 16777216"),
                                HasSubstr("a quarter of the memory budget of 67108864 bytes"), HasSubstr("offset "),
                                HasSubstr(".tfrecord")));
  const ChildResult small = run_child(command(1, {"--memory-mb", "1", "--cycle-length", "200"}));
  EXPECT_EQ(small.exit_code, 1);
  EXPECT_THAT(small.err, HasSubstr("memory_budget"));
}

}  // namespace
}  // namespace millrace::memory_test
