#include "millrace/formats/tfrecord/index/shard_fingerprint.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/formats/error.h"
#include "tests/support/injecting_storage.h"
#include "tests/support/manual_storage.h"
#include "tests/support/memory_storage.h"

namespace millrace::shard_fingerprint_test {
namespace {

using test::MemoryStorage;

uint64_t hash(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

TEST(ShardFingerprint, IsOfBothEndsOfFilesOfAnySize) {
  MemoryStorage memory;
  std::vector<std::string> paths;
  std::vector<ShardFingerprint> expected;
  for (const size_t size : {0, 1, 4095, 4096, 4097, 8191, 8192, 20000, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}) {
    std::string content;
    while (content.size() < size) content += std::to_string(content.size() * 7919);
    content.resize(size);
    const std::string name = std::to_string(size) + ".tfrecord";
    paths.push_back("folder/" + name);
    const size_t end = std::min<size_t>(size, 4096);
    expected.push_back({.name = name,
                        .bytes = size,
                        .first = hash(std::string_view(content).substr(0, end)),
                        .last = hash(std::string_view(content).substr(size - end))});
    memory.add(paths.back(), content);
  }
  EXPECT_EQ(read_shard_fingerprints(memory, paths), expected);
  EXPECT_EQ(read_shard_fingerprint(memory, paths[4]), expected[4]);
  test::InjectingStorage slow(
      memory, {.max_latency = std::chrono::microseconds(300), .max_read_bytes = 1500, .retriable_error_rate = 0.2});
  EXPECT_EQ(read_shard_fingerprints(slow, paths), expected);
  EXPECT_GT(slow.counts().short_reads, 0U);
  EXPECT_GT(slow.counts().retriable_errors, 0U);
}

TEST(ShardFingerprint, TheFirstFileWithAnErrorIsNamed) {
  MemoryStorage memory;
  memory.add("a", "content");
  memory.add("c", "content");
  const std::vector<std::string> paths = {"a", "none", "c", "neither"};
  try {
    (void)read_shard_fingerprints(memory, paths);
    FAIL();
  } catch (const ErrorException& exception) {
    EXPECT_EQ(exception.error().code, ErrorCode::kIo);
    EXPECT_EQ(exception.error().shard, "none");
  }
}

/// Answers nobody before so many files were asked for; then nobody before as many more as is said next.
class HoldingStorage final : public Storage {
 public:
  HoldingStorage(Storage& wrapped, std::vector<size_t> num_held) : wrapped_(wrapped), num_held_(std::move(num_held)) {}
  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override {
    held_.emplace_back(path, std::move(sink));
    if (held_.size() < num_held_.at(num_answered_)) return;
    ++num_answered_;
    for (auto& [held_path, held_sink] : std::exchange(held_, {})) wrapped_.open(held_path, std::move(held_sink));
  }
  [[nodiscard]] std::vector<std::string> glob(const std::string& pattern) override { return wrapped_.glob(pattern); }

 private:
  Storage& wrapped_;
  const std::vector<size_t> num_held_;
  size_t num_answered_ = 0;
  std::vector<std::pair<std::string, std::shared_ptr<OpenSink>>> held_;
};

TEST(ShardFingerprint, SeveralFilesAreAskedForAtOnce) {
  MemoryStorage memory;
  std::vector<std::string> paths;
  for (int i = 0; i < 8; ++i) {
    paths.push_back(std::to_string(i));
    memory.add(paths.back(), "content");
  }
  HoldingStorage holding(memory, {paths.size()});
  EXPECT_EQ(read_shard_fingerprints(holding, paths).size(), paths.size());  // one by one would wait forever
}

TEST(ShardFingerprint, ManyAreAskedForAtOnceOfAStoreThatAdvisesIt) {
  MemoryStorage memory;
  test::ManualStorage store(memory, {.opens = test::ManualStorage::kAll, .reads = test::ManualStorage::kAll});
  store.advise({.bytes = 1 << 20, .in_flight = 4});
  std::vector<std::string> paths;
  for (int i = 0; i < 16 + 200; ++i) {
    paths.push_back(std::to_string(i));
    memory.add(paths.back(), "content");
  }
  HoldingStorage holding(store, {16, 200});
  EXPECT_EQ(read_shard_fingerprints(holding, paths).size(), paths.size());
}

}  // namespace
}  // namespace millrace::shard_fingerprint_test
