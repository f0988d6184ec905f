#include "millrace/formats/tfrecord/index/index_loader.h"

#include <chrono>

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
