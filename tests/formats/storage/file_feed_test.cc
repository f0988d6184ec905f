#include "millrace/formats/storage/file_feed.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/full_storage.h"
#include "tests/support/injecting_storage.h"
#include "tests/support/manual_storage.h"
#include "tests/support/memory_storage.h"
#include "tests/support/shard_driver.h"

namespace millrace::file_feed_test {
namespace {

using test::FullStorage;
using test::InjectingStorage;
using test::ManualStorage;
using test::MemoryStorage;
using test::WakeFlag;
using testing::HasSubstr;

// With chunks of 100 bytes where three reads are to be in flight.
constexpr FileFeedOptions kOptions = {.chunk_bytes = 50, .read_ahead = 2, .most_bytes = 400};
constexpr ReadAdvice kAdvice = {.bytes = 100, .in_flight = 3};

class FileFeedTest : public testing::Test {
 protected:
  FileFeedTest() {
    for (int i = 0; content_.size() < 1000; ++i) content_ += std::to_string(i) + " ";
    content_.resize(1000);
    memory_.add("a", content_);
    memory_.add("b", content_ + ".");
  }

  std::shared_ptr<FileFeed> opened(Storage& storage, const FileFeedOptions& options = kOptions) {
    auto feed = std::make_shared<FileFeed>(BufferPool(), options, [this] { flag_.wake(); });
    feed->open(storage, "a");
    feed->allow_read_ahead(true);
    return feed;
  }
  static std::string text(const FileFeed::Chunk& chunk) {
    return {reinterpret_cast<const char*>(chunk.buffer->data()) + chunk.begin, chunk.end - chunk.begin};
  }
  // Takes what is there, and says what came then.
  static FileFeed::Got take(FileFeed& feed, std::string& all) {
    FileFeed::Chunk chunk;
    FileFeed::Got got = feed.next_chunk(chunk);
    for (; got == FileFeed::Got::kBytes; got = feed.next_chunk(chunk)) all += text(chunk);
    return got;
  }

  MemoryStorage memory_;
  std::string content_;
  WakeFlag flag_;
};

TEST_F(FileFeedTest, IsLetGoWhereItsFileCannotBeAskedFor) {
  FullStorage storage;
  auto feed = std::make_shared<FileFeed>(BufferPool(), kOptions, [] {});
  const std::weak_ptr<FileFeed> watched = feed;
  EXPECT_THROW(feed->open(storage, "a"), std::bad_alloc);
  feed.reset();
  EXPECT_TRUE(watched.expired());
}

TEST_F(FileFeedTest, HasAsManyReadsInFlightAsTheFileAdvises) {
  ManualStorage storage(memory_, {.opens = ManualStorage::kAll});
  storage.advise(kAdvice);
  const auto feed = opened(storage);
  std::string all;
  EXPECT_EQ(take(*feed, all), FileFeed::Got::kPending);
  EXPECT_EQ(storage.num_waiting(), 3U);
  storage.answer_one();
  EXPECT_EQ(take(*feed, all), FileFeed::Got::kPending);
  EXPECT_EQ(all, content_.substr(0, 100));
  EXPECT_EQ(storage.num_waiting(), 3U);

  // The last ones first: nothing is given before its turn.
  storage.answer_one(2);
  storage.answer_one(1);
  EXPECT_EQ(take(*feed, all), FileFeed::Got::kPending);
  EXPECT_EQ(all.size(), 100U);
  EXPECT_EQ(storage.num_waiting(), 1U) << "the two that are done are not taken";
  storage.answer_one();
  EXPECT_EQ(take(*feed, all), FileFeed::Got::kPending);
  EXPECT_EQ(all, content_.substr(0, 400));
  storage.release();
  EXPECT_EQ(take(*feed, all), FileFeed::Got::kNothing);
  EXPECT_EQ(all, content_);
  EXPECT_EQ(feed->num_read(), content_.size());
  EXPECT_EQ(storage.num_reads(), 10U);
}

TEST_F(FileFeedTest, HasOneReadInFlightOfAFileThatAdvisesNothing) {
  ManualStorage storage(memory_, {.opens = ManualStorage::kAll});
  const auto feed = opened(storage);
  std::string all;
  do {
    EXPECT_LE(storage.num_waiting(), 1U);
  } while (take(*feed, all) == FileFeed::Got::kPending && storage.answer_one());
  EXPECT_EQ(all, content_);
  EXPECT_EQ(storage.num_reads(), 20U);
}

TEST_F(FileFeedTest, SharesTheReadsInFlightWithOtherFiles) {
  for (const auto& [num_files, in_flight] :
       {std::pair(1, 3), std::pair(2, 3), std::pair(3, 2), std::pair(6, 1), std::pair(7, 1), std::pair(1000, 1)}) {
    ManualStorage storage(memory_, {.opens = ManualStorage::kAll});
    storage.advise({.bytes = 100, .in_flight = 3, .in_all = 6});
    const auto feed = opened(
        storage, {.chunk_bytes = 50, .read_ahead = 2, .num_files = static_cast<size_t>(num_files), .most_bytes = 400});
    std::string all;
    take(*feed, all);
    EXPECT_EQ(storage.num_waiting(), static_cast<size_t>(in_flight)) << num_files;
    storage.release();
    EXPECT_EQ(take(*feed, all), FileFeed::Got::kNothing);
    EXPECT_EQ(all, content_);
  }
}

TEST_F(FileFeedTest, BringsTheFirstBytesBeforeALongReadIsDone) {
  memory_.add("a", std::string(20 << 20, 'x'));
  ManualStorage storage(memory_, {.opens = ManualStorage::kAll});
  storage.advise({.bytes = 8 << 20, .in_flight = 4});
  const auto feed = opened(storage, {.most_bytes = 100 << 20});
  std::string all;
  take(*feed, all);
  storage.answer_one();
  take(*feed, all);
  EXPECT_EQ(all.size(), size_t{1} << 20);
  storage.answer_one();
  take(*feed, all);
  EXPECT_EQ(all.size(), size_t{9} << 20);
  storage.release();
}

TEST_F(FileFeedTest, KeepsToItsMemory) {
  struct Case {
    size_t most_bytes;
    size_t chunk_bytes;
    size_t in_flight;
  };
  for (const Case& c : {Case{.most_bytes = 0, .chunk_bytes = 50, .in_flight = 2},
                        Case{.most_bytes = 100, .chunk_bytes = 50, .in_flight = 2},
                        Case{.most_bytes = 280, .chunk_bytes = 70, .in_flight = 3},
                        Case{.most_bytes = 1 << 20, .chunk_bytes = 100, .in_flight = 3}}) {
    ManualStorage storage(memory_, {.opens = ManualStorage::kAll});
    storage.advise(kAdvice);
    const auto feed = opened(storage, {.chunk_bytes = 50, .read_ahead = 2, .most_bytes = c.most_bytes});
    std::string all;
    take(*feed, all);
    storage.answer_one();
    take(*feed, all);
    EXPECT_EQ(feed->chunk_bytes(), c.chunk_bytes) << c.most_bytes;
    EXPECT_EQ(storage.num_waiting(), c.in_flight) << c.most_bytes;
    storage.release();
  }
}

TEST_F(FileFeedTest, GivesTheBytesInTheirOrderInWhateverOrderTheyCome) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    ManualStorage storage(memory_);
    storage.advise({.bytes = 20 + random() % 100, .in_flight = static_cast<int>(1 + random() % 8)});
    const auto feed = opened(
        storage, {.chunk_bytes = 1 + random() % 60, .read_ahead = 1 + random() % 3, .most_bytes = random() % 2000});
    std::string all;
    uint64_t from = 0;
    FileFeed::Got got = FileFeed::Got::kPending;
    while (got == FileFeed::Got::kPending) {
      if (storage.num_waiting() > 0) storage.answer_one(random() % storage.num_waiting());
      const bool takes = feed->file() != nullptr && random() % 3 != 0;
      if (takes) got = take(*feed, all);
      if (feed->file() != nullptr && from == 0 && !all.empty() && random() % 4 == 0) {
        from = random() % content_.size();
        feed->restart(from);
        all.clear();
        got = FileFeed::Got::kPending;
      }
    }
    EXPECT_EQ(got, FileFeed::Got::kNothing);
    ASSERT_TRUE(all == content_.substr(from)) << "round " << round;
  }
}

TEST_F(FileFeedTest, OnManyThreadsToo) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    InjectingStorage storage(memory_, {.seed = seed,
                                       .max_latency = std::chrono::microseconds(20),
                                       .max_read_bytes = 70,
                                       .retriable_error_rate = 0.2,
                                       .advice = {.bytes = 60, .in_flight = 5}});
    const auto feed = opened(storage, {.chunk_bytes = 10, .most_bytes = 1000});
    std::string all;
    FileFeed::Got got = FileFeed::Got::kPending;
    while (got == FileFeed::Got::kPending) {
      if (feed->look() != FileFeed::Now::kBusy) got = take(*feed, all);
      if (got != FileFeed::Got::kPending) break;
      ASSERT_TRUE(flag_.wait());
    }
    EXPECT_EQ(got, FileFeed::Got::kNothing) << feed->error().value_or(Error()).to_string();
    EXPECT_EQ(all, content_);
    feed->close();
  }
}

// Whose reads of some bytes end in an error.
class FailingStorage final : public Storage {
 public:
  FailingStorage(Storage& of, uint64_t fails_at, bool ok) : of_(of), fails_at_(fails_at), ok_(ok) {}
  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override {
    struct Wrap final : OpenSink {
      void open_done(OpenResult result) noexcept override {
        result.file = std::make_shared<FailingFile>(std::move(result.file), fails_at, ok);
        sink->open_done(std::move(result));
      }
      std::shared_ptr<OpenSink> sink;
      uint64_t fails_at = 0;
      bool ok = false;
    };
    auto wrap = std::make_shared<Wrap>();
    wrap->sink = std::move(sink);
    wrap->fails_at = fails_at_;
    wrap->ok = ok_;
    of_.open(path, wrap);
  }
  std::vector<std::string> glob(const std::string& pattern) override { return of_.glob(pattern); }

 private:
  struct FailingFile final : File {
    FailingFile(std::shared_ptr<File> file, uint64_t at, bool is_short)
        : of(std::move(file)), fails_at(at), ok(is_short) {}
    uint64_t size() const override { return of->size(); }
    std::string version() const override { return of->version(); }
    void read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink) override {
      if (offset + destination.size() <= fails_at) return of->read(offset, destination, std::move(sink));
      if (offset < fails_at) return of->read(offset, destination.first(fails_at - offset), std::move(sink));
      sink->read_done({.ok = ok, .error = {.error = {.code = ErrorCode::kIo, .message = "no more"}}});
    }
    std::shared_ptr<File> of;
    uint64_t fails_at;
    bool ok;
  };

  Storage& of_;
  uint64_t fails_at_;
  bool ok_;
};

TEST_F(FileFeedTest, GivesAllBytesInFrontOfAnErrorAndThenTheError) {
  std::mt19937_64 random(2);
  for (const bool shrunken : {false, true}) {
    for (uint64_t fails_at = 0; fails_at < 1000; fails_at += 37) {
      FailingStorage failing(memory_, fails_at, shrunken);
      ManualStorage storage(failing, {.opens = ManualStorage::kAll});
      storage.advise(kAdvice);
      const auto feed = opened(storage);
      std::string all;
      FileFeed::Got got = take(*feed, all);
      while (got == FileFeed::Got::kPending) {
        ASSERT_GT(storage.num_waiting(), 0U);
        storage.answer_one(random() % storage.num_waiting());
        got = take(*feed, all);
      }
      EXPECT_EQ(got, FileFeed::Got::kFailed);
      EXPECT_EQ(all, content_.substr(0, fails_at));
      EXPECT_THAT(feed->error()->message,
                  HasSubstr(shrunken ? "now ends after " + std::to_string(fails_at) : std::string("no more")));
      feed->close();
      storage.answer_all();
    }
  }
}

TEST_F(FileFeedTest, DoesWithFewerHandlesWhereMoreCannotBeOpened) {
  MemoryStorage once;
  once.add("a", content_);
  struct OpensOnce final : Storage {
    explicit OpensOnce(Storage& storage) : of(storage) {}
    void open(const std::string& path, std::shared_ptr<OpenSink> sink) override {
      if (++opens < 3) return of.open(path, std::move(sink));
      sink->open_done({.error = {.error = {.code = ErrorCode::kIo, .message = "too many open files"}}});
    }
    std::vector<std::string> glob(const std::string& pattern) override { return of.glob(pattern); }
    Storage& of;
    int opens = 0;
  } limited(once);
  ManualStorage storage(limited, {.opens = ManualStorage::kAll});
  storage.advise(kAdvice);
  const auto feed = opened(storage);
  std::string all;
  while (take(*feed, all) == FileFeed::Got::kPending) {
    EXPECT_LE(storage.num_waiting(), 2U);
    ASSERT_TRUE(storage.answer_one());
  }
  EXPECT_EQ(all, content_);
  EXPECT_FALSE(feed->error());
  EXPECT_EQ(limited.opens, 3);
}

TEST_F(FileFeedTest, RefusesAFileThatIsAnotherOneByTheNextOpen) {
  struct Replaced final : Storage {
    explicit Replaced(Storage& storage) : of(storage) {}
    void open(const std::string& path, std::shared_ptr<OpenSink> sink) override {
      of.open(std::exchange(opened, true) ? "b" : path, std::move(sink));
    }
    std::vector<std::string> glob(const std::string& pattern) override { return of.glob(pattern); }
    Storage& of;
    bool opened = false;
  } replaced(memory_);
  ManualStorage storage(replaced, {.opens = ManualStorage::kAll});
  storage.advise(kAdvice);
  const auto feed = opened(storage);
  std::string all;
  while (take(*feed, all) == FileFeed::Got::kPending) ASSERT_TRUE(storage.answer_one());
  ASSERT_TRUE(feed->error());
  EXPECT_THAT(feed->error()->message, HasSubstr("it was changed while it was read"));
  EXPECT_TRUE(content_.starts_with(all));
  storage.release();
}

TEST_F(FileFeedTest, ReadsNothingMoreOnceItIsClosed) {
  ManualStorage storage(memory_, {.opens = ManualStorage::kAll});
  storage.advise(kAdvice);
  auto feed = opened(storage);
  std::string all;
  take(*feed, all);
  storage.answer_one();
  take(*feed, all);
  const size_t reads = storage.num_reads();
  feed->close();
  const std::weak_ptr<FileFeed> gone = feed;
  feed.reset();
  EXPECT_FALSE(gone.expired()) << "reads in flight need it";
  storage.answer_all();
  EXPECT_EQ(storage.num_reads(), reads);
  EXPECT_TRUE(gone.expired());
}

}  // namespace
}  // namespace millrace::file_feed_test
