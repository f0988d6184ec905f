#include "millrace/formats/tfrecord/index/index_loader.h"

#include <chrono>
#include <cstring>
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/index/index_builder.h"
#include "millrace/formats/tfrecord/writer.h"
#include "tests/support/injecting_storage.h"
#include "tests/support/memory_storage.h"
#include "tests/support/shard_driver.h"
#include "tests/support/temporary_folder.h"

namespace millrace::index_loader_test {
namespace {

using test::InjectingStorage;
using test::MemoryStorage;
using test::WakeFlag;
using ::testing::HasSubstr;

class IndexLoaderTest : public testing::Test {
 protected:
  IndexLoaderTest() {
    const test::TemporaryFolder folder;
    const std::string path = folder.path("a.tfrecord");
    RecordWriter writer(path);
    for (int r = 0; r < 500; ++r) writer.write(std::string(static_cast<size_t>(r % 7), 'x'));
    writer.close();
    InlineExecutor inline_executor;
    LocalStorage local(inline_executor);
    index_ = build_shard_index(local, path).serialize();
    storage_.add("a", "a shard");
    storage_.add("a.index", index_);
    storage_.add("broken", "a shard");
    storage_.add("broken.index", index_.substr(0, index_.size() / 2));
    storage_.add("empty", "a shard");
    storage_.add("empty.index", "");
  }
  static void wait(IndexLoader& loader, WakeFlag& flag) {
    while (!loader.done()) ASSERT_TRUE(flag.wait());
  }

  std::string index_;
  MemoryStorage storage_;
};

// A file of half a GiB that begins with `beginning` and has zeros after it.
class LongFile final : public Storage, public File, public std::enable_shared_from_this<LongFile> {
 public:
  explicit LongFile(std::string beginning) : beginning_(std::move(beginning)) {}
  void open(const std::string&, std::shared_ptr<OpenSink> sink) override {
    sink->open_done({.file = shared_from_this()});
  }
  [[nodiscard]] std::vector<std::string> glob(const std::string&) override { return {}; }
  uint64_t size() const override { return 1 << 29; }
  std::string version() const override { return "1"; }
  void read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink) override {
    num_bytes += destination.size();
    if (offset == 0) std::memcpy(destination.data(), beginning_.data(), beginning_.size());
    sink->read_done({.bytes = destination.size()});
  }
  uint64_t num_bytes = 0;

 private:
  const std::string beginning_;
};

TEST_F(IndexLoaderTest, ReadsNoMoreOfALongFileThanShowsThatItIsNone) {
  for (const std::string& beginning : {std::string(), index_.substr(0, 88)}) {
    const auto file = std::make_shared<LongFile>(beginning);
    WakeFlag flag;
    IndexLoader loader(*file, "long", [&flag] { flag.wake(); });
    wait(loader, flag);
    EXPECT_EQ(loader.index(), nullptr);
    ASSERT_TRUE(loader.problem());
    EXPECT_EQ(loader.problem()->code, ErrorCode::kIndex);
    EXPECT_LE(file->num_bytes, 64U << 10);
  }
}

TEST_F(IndexLoaderTest, ReadsALongIndexInTwoReads) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("b.tfrecord");
  RecordWriter writer(path);
  for (int r = 0; r < 40'000; ++r) writer.write(std::string(static_cast<size_t>(r % 7), 'x'));
  writer.close();
  InlineExecutor inline_executor;
  LocalStorage local(inline_executor);
  const ShardIndex index = build_shard_index(local, path);
  ASSERT_GT(index.serialize().size(), 100'000U);
  storage_.add("b.index", index.serialize());
  InjectingStorage counting(storage_, {});
  WakeFlag flag;
  IndexLoader loader(counting, "b", [&flag] { flag.wake(); });
  wait(loader, flag);
  ASSERT_NE(loader.index(), nullptr);
  EXPECT_EQ(*loader.index(), index);
  EXPECT_EQ(counting.counts().reads, 2U);
}

TEST_F(IndexLoaderTest, ReadsTheIndexBesideAShardOrSaysThatThereIsNoneOrWhyItIsOfNoUse) {
  for (const bool slow : {false, true}) {
    InjectingStorage injecting(storage_, {.max_latency = std::chrono::microseconds(slow ? 200 : 0),
                                          .max_read_bytes = slow ? 100U : 0U,
                                          .retriable_error_rate = slow ? 0.2 : 0});
    const auto load = [&](const std::string& shard, const auto& expect) {
      WakeFlag flag;
      IndexLoader loader(injecting, shard, [&flag] { flag.wake(); });
      wait(loader, flag);
      expect(loader);
      EXPECT_TRUE(loader.done()) << "and stays so";
    };
    load("a", [&](const IndexLoader& loader) {
      ASSERT_NE(loader.index(), nullptr);
      EXPECT_EQ(loader.index()->serialize(), index_);
      EXPECT_FALSE(loader.problem());
    });
    load("none", [](const IndexLoader& loader) {
      EXPECT_EQ(loader.index(), nullptr);
      EXPECT_FALSE(loader.problem());
    });
    for (const char* bad : {"broken", "empty"}) {
      load(bad, [&](const IndexLoader& loader) {
        EXPECT_EQ(loader.index(), nullptr);
        ASSERT_TRUE(loader.problem());
        EXPECT_EQ(loader.problem()->code, ErrorCode::kIndex);
        EXPECT_EQ(loader.problem()->shard, std::string(bad) + ".index");
      });
    }
    if (slow) {
      EXPECT_GT(injecting.counts().short_reads, 5U);
    }
  }
}

TEST_F(IndexLoaderTest, SaysWhatTheStorageSays) {
  InjectingStorage injecting(storage_, {.final_error_rate = 1});
  WakeFlag flag;
  IndexLoader loader(injecting, "a", [&flag] { flag.wake(); });
  wait(loader, flag);
  EXPECT_EQ(loader.index(), nullptr);
  ASSERT_TRUE(loader.problem());
  EXPECT_THAT(loader.problem()->message, HasSubstr("injected final error"));
}

TEST_F(IndexLoaderTest, WakesNobodyWhenItIsGone) {
  for (int i = 0; i < 200; ++i) {
    InjectingStorage injecting(
        storage_,
        {.seed = static_cast<uint64_t>(i), .max_latency = std::chrono::microseconds(100), .max_read_bytes = 500});
    auto alive = std::make_unique<WakeFlag>();
    {
      IndexLoader loader(injecting, "a", [&flag = *alive] { flag.wake(); });
      for (int looks = 0; looks < i % 5; ++looks) {
        if (loader.done() || !alive->wait()) break;
      }
    }
    alive.reset();  // what would be woken now is freed memory
  }
}

}  // namespace
}  // namespace millrace::index_loader_test
