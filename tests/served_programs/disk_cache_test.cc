// Programs that keep what they read of a bucket in a cache on disk.
#include "millrace/formats/storage/remote/disk_cache.h"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/stream_hash.h"
#include "tests/formats/storage/remote/test_bucket.h"
#include "tests/support/child_process.h"
#include "tests/support/memory_storage.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::served_disk_cache_test {
namespace {

using test::ChildProcess;
using test::ChildResult;
using test::read_file;
using test::run_child;
using test::TestBucket;
using testing::HasSubstr;

class ServedDiskCache : public testing::TestWithParam<TestBucket::Store> {
 protected:
  static constexpr int kShards = 5;
  static constexpr int kBatches = 50;  // all of them

  // Some shards of more than one block, with records of any bytes.
  void SetUp() override {
    std::filesystem::create_directory(folder_.path("shards"));
    for (int shard = 0; shard < kShards; ++shard) {
      const std::string name = fmt::format("part-{}.tfrecord", shard);
      RecordWriter writer(folder_.path("shards/" + name));
      for (int i = 0; i < 1000; ++i) writer.write(std::string(10'000, static_cast<char>(shard * 31 + i * 7)));
      writer.close();
      bucket_.put("shards/" + name, read_file(folder_.path("shards/" + name)));
    }
  }
  std::vector<std::string> reading(const std::string& shards, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {test::kDatasetBench, "read", "--shards",  shards + "/part-*",      "--json",
                                        "--batch",           "100",  "--batches", std::to_string(kBatches)};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  std::vector<std::string> cached_reading(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = reading(bucket_.url("shards"), {"--cache-dir", folder_.path("cache")});
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  nlohmann::json run(const std::vector<std::string>& command) const {
    const ChildResult result = run_child(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
  }
  // Of all shards that are in the cache.
  void remove_first_blocks() const {
    for (const auto& [name, content] : test::files_below(folder_.path("cache"))) {
      if (name.ends_with("/00000000")) std::filesystem::remove(folder_.path("cache/" + name));
    }
  }
  size_t num_gets() const {
    size_t count = 0;
    for (const auto& request : bucket_.requests()) count += request.method == "GET" && !request.key.empty() ? 1 : 0;
    return count;
  }

  const test::TemporaryFolder folder_;
  TestBucket bucket_{GetParam()};
};

TEST_P(ServedDiskCache, GivesTheStreamOfTheShardsWithoutReadingThemAgain) {
  const nlohmann::json local = run(reading(folder_.path("shards")));
  EXPECT_FALSE(local.contains("disk_cache"));
  const nlohmann::json first = run(cached_reading());
  EXPECT_EQ(first["stream_hash"], local["stream_hash"]);
  EXPECT_GT(first["disk_cache"]["missed_bytes"], 40'000'000);
  // What the machine was too busy for the first time.
  for (int i = 0; i < 5 && run(cached_reading())["disk_cache"]["missed_bytes"] != 0; ++i) {
  }
  const size_t before = num_gets();
  for (const char* threads : {"1", "2", "4"}) {
    const nlohmann::json again = run(cached_reading({"--threads", threads}));
    EXPECT_EQ(again["stream_hash"], local["stream_hash"]);
    EXPECT_EQ(again["disk_cache"]["missed_bytes"], 0);
    EXPECT_GT(again["disk_cache"]["hit_bytes"], 40'000'000);
  }
  EXPECT_EQ(num_gets(), before) << "only listings";
}

TEST_P(ServedDiskCache, OutlivesRunsThatAreKilled) {
  const nlohmann::json local = run(reading(folder_.path("shards")));
  int kills = 0;
  for (int attempt = 0; kills < 4; ++attempt) {
    ASSERT_LT(attempt, 100) << "it ends before it can be killed";
    // Of what earlier runs have left the first blocks go, so that there is something to ask for and to write.
    if (attempt > 0) remove_first_blocks();
    const size_t before = num_gets();
    ChildProcess bench(cached_reading());
    while (bench.running() && num_gets() < before + 1 + static_cast<size_t>(kills)) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * (attempt % 4)));  // while it writes what comes
    bench.signal(SIGKILL);
    if (bench.wait().signal == SIGKILL) ++kills;
    const nlohmann::json whole = run(cached_reading({"--cache-bytes", "30000000"}));
    EXPECT_EQ(whole["stream_hash"], local["stream_hash"]);
    EXPECT_EQ(whole["disk_cache"]["damaged_blocks"], 0);
  }
}

// Reads in flight outlive them, of the store and of the disk.
TEST_P(ServedDiskCache, OutlivesPipelinesThatEndEarly) {
  const auto shards = [&](const std::string& folder) {
    return Dataset::tfrecord(Shards::glob(folder + "/part-*"), {.cycle_length = 4}).batch(50);
  };
  const auto hash_of = [](Pipeline pipeline, int most) {
    StreamHash hash;
    for (int i = 0; i < most; ++i) {
      const std::optional<Batch> batch = pipeline.next();
      if (!batch) break;
      hash.add(*batch);
    }
    return hash.hex();
  };
  const StartOptions cached{.disk_cache = {.folder = folder_.path("cache")}, .memory_budget = 64 << 20};
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(hash_of(shards(bucket_.url("shards")).start(cached), i),
              hash_of(shards(folder_.path("shards")).start(), i));
    // As if others had removed some.
    EXPECT_TRUE(DiskCache::open(cached.disk_cache)->flush());
    if (i % 3 == 0) remove_first_blocks();
  }
  EXPECT_EQ(hash_of(shards(bucket_.url("shards")).start(cached), 1000),
            hash_of(shards(folder_.path("shards")).start(), 1000));
  EXPECT_EQ(DiskCache::open(cached.disk_cache)->statistics().ended, "");
  EXPECT_THROW(shards(folder_.path("shards"))
                   .start({.storage = std::make_shared<test::MemoryStorage>(), .disk_cache = cached.disk_cache}),
               ErrorException);
}

TEST_P(ServedDiskCache, IsRefusedWhereItCannotBe) {
  const auto error_of = [](const std::vector<std::string>& command) {
    const ChildResult result = run_child(command);
    EXPECT_NE(result.exit_code, 0);
    return result.err;
  };
  EXPECT_THAT(error_of(reading(bucket_.url("shards"), {"--cache-dir", folder_.path("shards")})),
              HasSubstr("it has other things than a disk cache"));
  EXPECT_THAT(error_of(reading(bucket_.url("shards"), {"--cache-bytes", "1000"})),
              HasSubstr("--cache-bytes has no effect without --cache-dir"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path("shards")), {}), kShards);
}

INSTANTIATE_TEST_SUITE_P(Stores, ServedDiskCache, testing::Values(TestBucket::Store::kS3, TestBucket::Store::kGoogle),
                         [](const auto& store) { return to_string(store.param); });

}  // namespace
}  // namespace millrace::served_disk_cache_test
