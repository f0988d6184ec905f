#include "millrace/formats/tfrecord/index/record_fetcher.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/tfrecord/index/index_builder.h"
#include "millrace/formats/tfrecord/writer.h"
#include "tests/support/memory_storage.h"
#include "tests/support/temporary_folder.h"

namespace millrace::record_fetcher_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Reads of some bytes of each file bring what a function says.
class FaultyStorage final : public Storage {
 public:
  using Answer = std::function<ReadResult(uint64_t offset, size_t size, const ReadResult& good)>;
  FaultyStorage(Storage& of, Answer answer) : of_(of), answer_(std::move(answer)) {}

  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override {
    struct Opened final : OpenSink {
      void open_done(OpenResult result) noexcept override {
        if (result.file) result.file = std::make_shared<FaultyFile>(std::move(result.file), answer);
        sink->open_done(std::move(result));
      }
      std::shared_ptr<OpenSink> sink;
      Answer answer;
    };
    auto opened = std::make_shared<Opened>();
    opened->sink = std::move(sink);
    opened->answer = answer_;
    of_.open(path, opened);
  }
  std::vector<std::string> glob(const std::string& pattern) override { return of_.glob(pattern); }

 private:
  class FaultyFile final : public File {
   public:
    FaultyFile(std::shared_ptr<File> of, Answer answer) : of_(std::move(of)), answer_(std::move(answer)) {}
    uint64_t size() const override { return of_->size(); }
    std::string version() const override { return of_->version(); }
    void read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink) override {
      struct Answered final : ReadSink {
        void read_done(ReadResult result) noexcept override { good = std::move(result); }
        ReadResult good;
      };
      const auto answered = std::make_shared<Answered>();
      of_->read(offset, destination, answered);
      sink->read_done(answer_(offset, destination.size(), answered->good));
    }

   private:
    const std::shared_ptr<File> of_;
    const Answer answer_;
  };

  Storage& of_;
  const Answer answer_;
};

/// Shards `a` with ten records and `b` with five, of 1,000 bytes with their frames.
class RecordFetcherTest : public testing::Test {
 protected:
  RecordFetcherTest() { write({}); }

  void write(const RecordWriterOptions& options) {
    const test::TemporaryFolder folder;
    std::vector<std::shared_ptr<const ShardIndex>> indexes;
    for (const auto& [name, count] : std::vector<std::pair<std::string, int>>{{"a", 10}, {"b", 5}}) {
      RecordWriter writer(folder.path(name), options);
      for (int i = 0; i < count; ++i) writer.write(record(name, i));
      writer.close();
      files_[name] = test::read_file(folder.path(name));
      storage_.add(name, files_[name]);
    }
    for (const char* name : {"a", "b"}) {
      indexes.push_back(std::make_shared<const ShardIndex>(build_shard_index(storage_, name)));
    }
    indexes_ = std::make_shared<const ShardIndexes>(Shards::files({"a", "b"}), std::move(indexes));
  }

  static std::string record(const std::string& shard, int index) {
    std::string text = fmt::format("{}{}", shard, index);
    text.resize(984, '.');
    return text;
  }

  // The first two bytes of each record, or its fault; batches in brackets.
  std::vector<std::string> fetch(Storage& storage, const std::vector<uint64_t>& records,
                                 const RecordFetcherOptions& options = {}) {
    BufferPool pool;
    RecordFetcher fetcher(storage, pool, indexes_, std::make_shared<FilePool>(2, 4), options, [] {});
    std::vector<std::string> all;
    FetchedRecords batch;
    for (int round = 0; round < 2; ++round) {  // it can be started again
      all.clear();
      fetcher.start(records);
      while (fetcher.next(batch) == RecordFetcher::Step::kRecords) {
        for (size_t i = 0; i < batch.payloads.size(); ++i) all.emplace_back(batch.payloads[i].substr(0, 2));
        for (const FetchedRecords::Fault& fault : batch.faults) {
          all[all.size() - batch.payloads.size() + fault.index] = fault.error.to_string();
        }
      }
    }
    num_reads_ = fetcher.num_reads() / 2;
    num_bytes_read_ = fetcher.num_bytes_read() / 2;
    return all;
  }

  std::map<std::string, std::string> files_;
  test::MemoryStorage storage_;
  std::shared_ptr<const ShardIndexes> indexes_;
  uint64_t num_reads_ = 0;  // of one round
  uint64_t num_bytes_read_ = 0;
};

TEST_F(RecordFetcherTest, GivesRecordsInTheOrderThatWasAskedFor) {
  EXPECT_THAT(fetch(storage_, {14, 3, 0, 10, 9, 3}), ElementsAre("b4", "a3", "a0", "b0", "a9", "a3"));
  EXPECT_THAT(fetch(storage_, {}), ElementsAre());
}

TEST_F(RecordFetcherTest, ReadsNeighboursInOnePiece) {
  fetch(storage_, {5, 0, 2, 14}, {.merge_gap = 1000});
  EXPECT_EQ(num_reads_, 3U);  // 0 to 2, 5, and the other shard's
  EXPECT_EQ(num_bytes_read_, 5000U);
  fetch(storage_, {5, 0, 2, 14}, {.merge_gap = 999});
  EXPECT_EQ(num_reads_, 4U);
  EXPECT_EQ(num_bytes_read_, 4000U);
  fetch(storage_, {0, 1, 2, 3, 4, 5}, {.most_bytes_a_read = 2500});
  EXPECT_EQ(num_reads_, 3U);
}

TEST_F(RecordFetcherTest, HoldsNoMoreThanIsAllowed) {
  EXPECT_THAT(fetch(storage_, {4, 1, 13, 0, 2}, {.most_bytes_held = 2000}), ElementsAre("a4", "a1", "b3", "a0", "a2"));
  EXPECT_EQ(num_reads_, 5U);  // 1 to 4 would be longer than what may be held
}

TEST_F(RecordFetcherTest, OfAPieceThatCannotBeReadOnlyTheRecordsThatCannotAreLost) {
  FaultyStorage faulty(storage_, [](uint64_t offset, size_t size, const ReadResult& good) {
    constexpr uint64_t kBadByte = 2500;
    if (offset > kBadByte || offset + size <= kBadByte) return good;
    return ReadResult{.ok = false, .error = {.error = {.code = ErrorCode::kIo, .message = "cannot read: bad block"}}};
  });
  const std::vector<std::string> records = fetch(faulty, {3, 2, 12, 1});
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(records[0], "a3");
  EXPECT_EQ(records[1], "io: cannot read: bad block (shard a, offset 2000, record 2)");
  EXPECT_EQ(records[2], "io: cannot read: bad block (shard b, offset 2000, record 2)");
  EXPECT_EQ(records[3], "a1");
}

TEST_F(RecordFetcherTest, AFileThatWasCutAfterItWasOpenedIsTruncatedWhereItEnds) {
  FaultyStorage faulty(storage_, [](uint64_t offset, size_t size, const ReadResult&) {
    constexpr uint64_t kEnd = 3200;
    return ReadResult{.bytes = static_cast<size_t>(std::min(offset + size, std::max(kEnd, offset)) - offset)};
  });
  const std::vector<std::string> records = fetch(faulty, {2, 3, 4});
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0], "a2");
  EXPECT_THAT(records[1], HasSubstr("truncated: the file had 10000 bytes when it was opened and now ends after 3200"));
  EXPECT_THAT(records[2], HasSubstr("truncated: the file had 10000 bytes when it was opened and now ends after 4000"));
}

TEST_F(RecordFetcherTest, OfZstdReadsAFrameOnceForAllOfItsRecords) {
  write({.compression = Compression::kZstd, .frame_bytes = 3000});
  const ShardIndex& a = indexes_->index(0);
  ASSERT_EQ(a.num_frames(), 4U);  // of three records, and one of one
  EXPECT_EQ(a.frame_with(2999), 0U);
  EXPECT_EQ(a.frame_with(3000), 1U);
  EXPECT_THAT(fetch(storage_, {2, 0, 1, 14, 2}, {.merge_gap = 0}), ElementsAre("a2", "a0", "a1", "b4", "a2"));
  EXPECT_EQ(num_reads_, 2U);
  EXPECT_EQ(num_bytes_read_, a.frame(0).end + indexes_->index(1).frame(1).end - indexes_->index(1).frame(1).begin);
  // Neighbours in one piece, and those with a frame between them where that is short.
  EXPECT_THAT(fetch(storage_, {5, 2}, {.merge_gap = 0}), ElementsAre("a5", "a2"));
  EXPECT_EQ(num_reads_, 1U);
  EXPECT_THAT(fetch(storage_, {9, 2, 7}, {.merge_gap = 0}), ElementsAre("a9", "a2", "a7"));
  EXPECT_EQ(num_reads_, 2U);
  EXPECT_THAT(fetch(storage_, {9, 2, 7}), ElementsAre("a9", "a2", "a7"));
  EXPECT_EQ(num_reads_, 1U);
  // A record that is a frame.
  write({.compression = Compression::kZstd, .frame_bytes = 1});
  EXPECT_THAT(fetch(storage_, {14, 3, 0, 10, 9, 3}), ElementsAre("b4", "a3", "a0", "b0", "a9", "a3"));
}

TEST_F(RecordFetcherTest, OfZstdLosesTheRecordsOfAFrameThatCannotBeUnpackedOrRead) {
  write({.compression = Compression::kZstd, .frame_bytes = 3000});
  const ShardIndex::Frame bad = indexes_->index(0).frame(1);
  FaultyStorage unreadable(storage_, [&](uint64_t offset, size_t size, const ReadResult& good) {
    if (offset > bad.begin || offset + size <= bad.begin) return good;
    return ReadResult{.ok = false, .error = {.error = {.code = ErrorCode::kIo, .message = "cannot read: bad block"}}};
  });
  std::vector<std::string> records = fetch(unreadable, {4, 2, 3, 6}, {.merge_gap = 0});
  EXPECT_EQ(records[0], "io: cannot read: bad block (shard a, offset 4000, record 4)");
  EXPECT_EQ(records[1], "a2");
  EXPECT_EQ(records[2], "io: cannot read: bad block (shard a, offset 3000, record 3)");
  EXPECT_EQ(records[3], "a6");

  std::string bytes = files_.at("a");
  bytes[(bad.begin + bad.end) / 2] = static_cast<char>(bytes[(bad.begin + bad.end) / 2] ^ 8);
  storage_.add("a", bytes);
  records = fetch(storage_, {4, 2, 3, 6});
  EXPECT_THAT(records[0], HasSubstr(fmt::format("zstd frame at compressed byte {}", bad.begin)));
  EXPECT_THAT(records[0], HasSubstr("(shard a, offset 4000, record 4)"));
  EXPECT_EQ(records[1], "a2");
  EXPECT_THAT(records[2], HasSubstr("compression: "));
  EXPECT_EQ(records[3], "a6");
}

TEST_F(RecordFetcherTest, FilesAreKeptForTheNextReads) {
  FilePool pool(2, 1);
  EXPECT_EQ(pool.take(0), nullptr);
  const auto file = std::make_shared<RangeReader>(nullptr);
  const auto other = std::make_shared<RangeReader>(nullptr);
  pool.give_back(0, file);
  pool.give_back(1, other);  // in the place of the first
  EXPECT_EQ(pool.take(0), nullptr);
  EXPECT_EQ(pool.take(1), other);
  EXPECT_EQ(pool.take(1), nullptr);
}

}  // namespace
}  // namespace millrace::record_fetcher_test
