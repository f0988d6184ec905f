#include "millrace/formats/tfrecord/shard_reader.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "millrace/formats/compression/frame_table.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/index/index_builder.h"
#include "millrace/formats/tfrecord/warm_chunk.h"
#include "millrace/formats/tfrecord/writer.h"
#include "tests/support/injecting_storage.h"
#include "tests/support/manual_storage.h"
#include "tests/support/memory_storage.h"
#include "tests/support/places.h"
#include "tests/support/shard_driver.h"
#include "tests/support/temporary_folder.h"

namespace millrace::shard_reader_test {
namespace {

namespace fs = std::filesystem;
using std::chrono::microseconds;
using test::InjectingStorage;
using test::ManualStorage;
using test::MemoryStorage;
using test::read_shard;
using test::ReadShard;
using ::testing::HasSubstr;
using Step = ShardReader::Step;

class ShardReaderTest : public ::testing::Test {
 protected:
  static std::string record(size_t i, size_t size) {
    std::string text;
    while (text.size() < size) text += std::to_string(i * 7919 + text.size()) + " ";
    text.resize(size);
    return text;
  }
  std::string write(const std::string& name, const std::vector<std::string>& records,
                    RecordWriterOptions options = {}) {
    const std::string path = (folder_ / name).string();
    RecordWriter writer(path, options);
    for (const std::string& one : records) writer.write(one);
    writer.close();
    return path;
  }
  static std::vector<std::string> payloads(const ReadShard& read) {
    std::vector<std::string> result;
    for (const auto& one : read.records) result.push_back(one.payload);
    return result;
  }
  // Reads to the end from a storage that answers when the reader waits for it, and gives each batch to `used`. Returns
  // how often the reader waited.
  static int num_waits(ShardReader& reader, ManualStorage& storage, const std::function<void(RecordBatch&)>& used) {
    int waits = 0;
    RecordBatch batch;
    for (Step step; (step = reader.next(batch)) != Step::kEnd;) {
      if (step == Step::kPending) {
        ++waits;
        if (!storage.answer_one()) {
          ADD_FAILURE() << "it waits for nothing";
          return waits;
        }
      } else if (step == Step::kRecords) {
        used(batch);
      } else {
        ADD_FAILURE() << reader.fault().error.to_string();
        return waits;
      }
    }
    return waits;
  }

  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  BufferPool pool_;
  InlineExecutor executor_;
  LocalStorage local_{executor_};
};

std::vector<std::string> many_records(size_t (*size)(size_t), size_t count) {
  std::vector<std::string> records;
  for (size_t i = 0; i < count; ++i) {
    std::string text;
    while (text.size() < size(i)) text += std::to_string(i * 7919 + text.size()) + " ";
    text.resize(size(i));
    records.push_back(std::move(text));
  }
  return records;
}

TEST_F(ShardReaderTest, ReadsBackWhatTheWriterWrote) {
  const auto records = many_records([](size_t i) { return i % 7 == 0 ? i * 501 : i % 90; }, 400);
  for (const Compression compression :
       {Compression::kNone, Compression::kZlib, Compression::kGzip, Compression::kZstd}) {
    const std::string path = write("a.tfrecord", records, {.compression = compression});
    const ReadShard read = read_shard(local_, pool_, path, {.num_records = records.size()}, true);
    EXPECT_TRUE(read.faults.empty());
    EXPECT_EQ(payloads(read), records);
  }
}

TEST_F(ShardReaderTest, BatchesNeverExceedTheNumberAskedFor) {
  const auto records = many_records([](size_t i) { return i % 50; }, 100);
  const std::string path = write("a.tfrecord", records);
  ShardReader reader(local_, pool_, path, {}, [] {});
  RecordBatch batch;
  size_t seen = 0;
  for (Step step; (step = reader.next(batch, 7)) != Step::kEnd;) {
    ASSERT_EQ(step, Step::kRecords);
    EXPECT_LE(batch.size(), 7U);
    EXPECT_EQ(batch.first_record, seen);
    seen += batch.size();
  }
  EXPECT_EQ(seen, 100U);
}

TEST_F(ShardReaderTest, SlowStorageMakesItPendingAndThenWakes) {
  const auto records = many_records([](size_t) { return size_t{1000}; }, 2000);
  const std::string path = write("a.tfrecord", records);
  ManualStorage storage(local_);
  int num_wakes = 0;
  ShardReader reader(storage, pool_, path, {}, [&num_wakes] { ++num_wakes; });
  RecordBatch batch;
  std::vector<std::string> seen;
  int num_pending = 0;
  for (Step step; (step = reader.next(batch)) != Step::kEnd;) {
    ASSERT_NE(step, Step::kError);
    if (step == Step::kPending) {
      ++num_pending;
      EXPECT_EQ(reader.next(batch), Step::kPending) << "as long as nothing is answered";
      EXPECT_EQ(num_wakes, num_pending - 1);
      while (num_wakes < num_pending) ASSERT_TRUE(storage.answer_one());
    }
    for (const std::string_view payload : batch.payloads) seen.emplace_back(payload);
  }
  EXPECT_EQ(seen, records);
  EXPECT_GT(num_pending, 2);
}

TEST_F(ShardReaderTest, SlowStorageIsReadAheadWhileABatchIsUsed) {
  const auto records = many_records([](size_t) { return size_t{1000}; }, 4000);
  const std::string path = write("a.tfrecord", records);
  for (const bool answers : {false, true}) {
    ManualStorage storage(local_);
    ShardReader reader(storage, pool_, path, {.read_ahead = 2}, [] {});
    const int waits = num_waits(reader, storage, [&](RecordBatch&) {
      if (answers) storage.answer_all();  // the caller is slower than the storage
    });
    // Only for the file and its first chunk, or for each of 16.
    if (answers)
      EXPECT_EQ(waits, 2);
    else
      EXPECT_GT(waits, 12);
  }
}

TEST_F(ShardReaderTest, ReadsAsManyChunksAheadAsItIsTold) {
  const std::string path = write("a.tfrecord", many_records([](size_t) { return size_t{1000}; }, 400));
  for (const size_t read_ahead : {size_t{0}, size_t{1}, size_t{7}}) {
    ManualStorage storage(local_);
    ShardReader reader(storage, pool_, path, {.chunk_bytes = 16 << 10, .read_ahead = read_ahead}, [] {});
    RecordBatch batch;
    while (reader.next(batch) == Step::kPending) ASSERT_TRUE(storage.answer_one());
    storage.answer_all();
    EXPECT_EQ(storage.num_reads(), 2 + read_ahead) << "the first chunk, the one that the next batch needs, and others";
  }
}

TEST_F(ShardReaderTest, SmallPartsAreReadWhereThatIsFastAndElseWhatWasAskedFor) {
  const auto records = many_records([](size_t) { return size_t{1000}; }, 4000);
  const std::string path = write("a.tfrecord", records);
  const auto reads = [&](size_t chunk_bytes, size_t max_records) {
    InjectingStorage storage(local_, {});
    const ShardReaderOptions options{.chunk_bytes = chunk_bytes, .read_ahead = 0};
    EXPECT_EQ(payloads(read_shard(storage, pool_, path, options, true, max_records)), records);
    return storage.counts().reads;
  };
  EXPECT_GE(most_warm_chunk_bytes(1000), size_t{128} << 10);
  EXPECT_LE(most_warm_chunk_bytes(1000), size_t{256} << 10);
  for (const size_t max_records : {size_t{1}, SIZE_MAX}) {
    EXPECT_GE(reads(1 << 20, max_records), 1 + (3 << 20) / most_warm_chunk_bytes(1000))
        << "1 MiB, and less of the rest at a time";
    EXPECT_GE(reads(64 << 10, max_records), 63U) << "never more than was asked for";
    ManualStorage slow(local_);
    EXPECT_EQ(payloads(read_shard(slow, pool_, path, {.chunk_bytes = 1 << 20, .read_ahead = 0}, true, max_records,
                                  false, [&] { return slow.answer_one(); })),
              records);
    EXPECT_LE(slow.num_reads(), 5U) << "1 MiB at a time";
  }
}

TEST_F(ShardReaderTest, OfFewRecordsLargerPartsAreRead) {
  constexpr size_t kRecord = 20'000;
  EXPECT_EQ(most_warm_chunk_bytes(kRecord), size_t{256} << 10);
  EXPECT_EQ(most_warm_chunk_bytes(0), most_warm_chunk_bytes(1000)) << "of records of no known length";
  const auto records = many_records([](size_t) { return kRecord; }, 200);
  const std::string path = write("a.tfrecord", records);
  const auto reads = [&](size_t chunk_bytes) {
    InjectingStorage storage(local_, {});
    const ShardReaderOptions options{.chunk_bytes = chunk_bytes, .read_ahead = 0};
    EXPECT_EQ(payloads(read_shard(storage, pool_, path, options, true)), records);
    return storage.counts().reads;
  };
  // Twelve records fit into 256 KiB.
  EXPECT_LE(reads(1 << 20), 1 + 200 / 12) << "1 MiB, and 256 KiB of the rest at a time";
  EXPECT_GE(reads(1 << 20), 1 + (200 - 52) / 13) << "no more than that";
  EXPECT_GE(reads(64 << 10), 60U) << "never more than was asked for";
}

TEST_F(ShardReaderTest, LongRecordsAreReadInPiecesWhereThatIsFastAndElseInOneEach) {
  const auto records = many_records([](size_t i) { return (size_t{3} << 20) + i * 1000; }, 6);
  const std::string path = write("a.tfrecord", records);
  InjectingStorage fast(local_, {});
  const ReadShard read = read_shard(fast, pool_, path, {}, true);
  EXPECT_EQ(payloads(read), records);
  EXPECT_GE(fast.counts().reads, 6 * 6U) << "of 512 KiB";
  EXPECT_LE(fast.counts().reads, 6 * 8U);
  ManualStorage slow(local_);
  const auto answer = [&] { return slow.answer_one(); };
  EXPECT_EQ(payloads(read_shard(slow, pool_, path, {}, true, SIZE_MAX, false, answer)), records);
  EXPECT_EQ(slow.num_reads(), 7U) << "the first chunk, and one for each";
}

// Says yes and counts.
class CountingGate final : public MemoryGate {
 public:
  bool admit(int64_t bytes) noexcept override {
    admitted_.push_back(bytes);
    open_ += bytes;
    return true;
  }
  bool admit_ahead(int64_t bytes) noexcept override { return admit(bytes); }
  void taken(int64_t bytes) noexcept override { open_ -= bytes; }
  int64_t budget() const noexcept override { return INT64_MAX; }

  const std::vector<int64_t>& admitted() const { return admitted_; }
  int64_t open() const { return open_; }

 private:
  std::vector<int64_t> admitted_;
  int64_t open_ = 0;
};

TEST_F(ShardReaderTest, MemoryOfALongRecordIsAskedForOnce) {
  const auto records = many_records([](size_t i) { return (size_t{3} << 20) + i * 77'000; }, 6);
  const std::string path = write("a.tfrecord", records);
  for (const auto latency : {microseconds(0), microseconds(100)}) {
    InjectingStorage storage(local_, {.min_latency = latency, .max_latency = latency, .max_read_bytes = 900'000});
    CountingGate gate;
    EXPECT_EQ(payloads(read_shard(storage, pool_, path, {.memory = &gate}, true)), records);
    ASSERT_EQ(gate.admitted().size(), records.size());
    for (size_t i = 0; i < records.size(); ++i) {
      EXPECT_LE(gate.admitted()[i], static_cast<int64_t>(records[i].size() + 16));
    }
    EXPECT_EQ(gate.open(), 0);
  }
}

// Says no the first time that much is asked for.
class HesitantGate final : public MemoryGate {
 public:
  explicit HesitantGate(int64_t much) : much_(much) {}
  bool admit(int64_t bytes) noexcept override {
    if (bytes < much_) return true;
    ++num_asked_;
    return std::exchange(has_refused_, true);
  }
  bool admit_ahead(int64_t bytes) noexcept override { return admit(bytes); }
  void taken(int64_t /*bytes*/) noexcept override {}
  int64_t budget() const noexcept override { return INT64_MAX; }
  bool has_refused() const { return has_refused_; }
  int num_asked() const { return num_asked_; }  // for much

 private:
  const int64_t much_;
  bool has_refused_ = false;
  int num_asked_ = 0;
};

TEST_F(ShardReaderTest, ALongRecordThatBeginsInAChunkReadAheadWaitsForMemory) {
  // Longer than what is read ahead, or with its end in the middle of that.
  for (const size_t size : {3'000'000, 1'300'000}) {
    auto records = many_records([](size_t) { return size_t{10'000}; }, 200);
    records.push_back(record(7, size));
    records.push_back(record(8, 900'000));
    const std::string path = write("a.tfrecord", records);
    ManualStorage storage(local_);
    storage.advise({.bytes = 300'000, .in_flight = 7});
    HesitantGate gate(1'000'000);
    ShardReader reader(storage, pool_, path, {.most_bytes_ahead = 3'000'000, .memory = &gate}, [] {});
    std::vector<std::string> seen;
    RecordBatch batch;
    int refusals = 0;
    for (Step step; (step = reader.next(batch)) != Step::kEnd;) {
      ASSERT_NE(step, Step::kError) << reader.fault().error.to_string();
      for (const std::string_view payload : batch.payloads) seen.emplace_back(payload);
      if (step != Step::kPending) continue;
      if (refusals == 0 && gate.has_refused()) {
        refusals = 1;
        EXPECT_GT(storage.num_waiting() + storage.num_reads(), 8U) << "chunks of it were read ahead";
      } else {
        ASSERT_TRUE(storage.answer_one()) << "it waits for nothing";
      }
    }
    EXPECT_EQ(refusals, 1);
    EXPECT_EQ(gate.num_asked(), 2) << "it was refused once, and asked for once";
    EXPECT_EQ(seen, records);
  }
}

// The first bytes say how a shard is stored: from then on all is in flight that the store advises, whichever comes
// first.
TEST_F(ShardReaderTest, HasAllReadsInFlightOfAStoreThatAdvisesThem) {
  const auto records = many_records([](size_t) { return size_t{1000}; }, 1000);
  for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZstd}) {
    for (const std::string name : {"a.tfrecord", "a.zst"}) {
      const std::string path = write(name, records, {.compression = compression});
      for (const bool last_first : {false, true}) {
        ManualStorage storage(local_, {.opens = ManualStorage::kAll});
        storage.advise({.bytes = 20000, .in_flight = 4});
        ShardReader reader(storage, pool_, path, {.chunk_bytes = 20000, .most_bytes_ahead = 200000}, [] {});
        std::vector<std::string> seen;
        RecordBatch batch;
        ASSERT_EQ(reader.next(batch), Step::kPending);
        EXPECT_EQ(storage.num_waiting(), 1U);
        storage.answer_one();
        Step step = reader.next(batch);
        EXPECT_EQ(storage.num_waiting(), compression == Compression::kZstd ? 1U : 4U);
        for (; step != Step::kEnd; step = reader.next(batch)) {
          ASSERT_NE(step, Step::kError) << reader.fault().error.to_string();
          if (step == Step::kPending) {
            ASSERT_TRUE(storage.answer_one(last_first ? storage.num_waiting() - 1 : 0));
          } else {
            for (const std::string_view payload : batch.payloads) seen.emplace_back(payload);
          }
        }
        EXPECT_EQ(seen, records) << name;
      }
    }
  }
}

TEST_F(ShardReaderTest, MixedSizesComeWholeThroughEveryWayOfReading) {
  const auto records = many_records(
      [](size_t i) { return i % 11 == 0  ? 40000 + i * 300
                            : i % 5 == 0 ? size_t{15900} + i
                                         : i % 200; }, 300);
  for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZstd}) {
    const std::string path = write("a.tfrecord", records, {.compression = compression});
    for (const size_t read_ahead : {0, 1, 2, 5}) {
      for (const uint64_t seed : {1, 2, 3, 4, 5, 6}) {
        InjectingStorage storage(local_, {.seed = seed,
                                          .min_latency = microseconds(0),
                                          .max_latency = microseconds(100),
                                          .max_read_bytes = 60000,
                                          .retriable_error_rate = 0.1,
                                          .advice = {.bytes = 30000, .in_flight = seed > 3 ? 4 : 1}});
        const ReadShard read = read_shard(
            storage, pool_, path,
            {.chunk_bytes = 20000, .read_ahead = read_ahead, .most_bytes_ahead = size_t{200000} * (seed % 2)}, true,
            50);
        ASSERT_TRUE(read.faults.empty()) << read.faults[0].error.to_string();
        ASSERT_EQ(payloads(read), records);
      }
    }
  }
}

// Who copies what it gets: the memory is left behind each batch, also with a part of a record at hand, and while others
// are read ahead.
TEST_F(ShardReaderTest, LeavesTheMemoryOfRecordsThatWereCopied) {
  const auto mixed =
      many_records([](size_t i) { return i % 11 == 0  ? 40000 + i * 300
                                         : i % 5 == 0 ? 15900 + i
                                                      : i % 200; }, 300);
  const auto small = many_records([](size_t i) { return 70 + i % 50; }, 5000);
  for (const auto& records : {mixed, small}) {
    for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZstd}) {
      const std::string path = write("a.tfrecord", records, {.compression = compression});
      for (const size_t read_ahead : {0, 1, 2}) {
        for (const int latency_us : {0, 100}) {
          InjectingStorage storage(local_, {.seed = read_ahead,
                                            .min_latency = microseconds(0),
                                            .max_latency = microseconds(latency_us),
                                            .max_read_bytes = 60000});
          for (const size_t max_records : {size_t{50}, SIZE_MAX}) {
            const ReadShard read = read_shard(storage, pool_, path, {.chunk_bytes = 20000, .read_ahead = read_ahead},
                                              true, max_records, /*leave_buffer=*/true);
            ASSERT_TRUE(read.faults.empty()) << read.faults[0].error.to_string();
            ASSERT_FALSE(read.hung);
            ASSERT_EQ(payloads(read), records);
          }
        }
      }
    }
  }
}

TEST_F(ShardReaderTest, KeepsOnlyWhatIsReadAheadOfRecordsThatWereCopied) {
  const std::string path = write("a.tfrecord", many_records([](size_t i) { return 70 + i % 50; }, 20000));
  // The most memory after a batch, from a storage that has it at once or that is slower than its caller.
  const auto most = [&](bool slow, bool leaves) {
    BufferPool pool;
    ManualStorage storage(local_);
    ShardReader reader(slow ? static_cast<Storage&>(storage) : local_, pool, path,
                       {.chunk_bytes = 64 << 10, .read_ahead = 1}, [] {});
    int64_t bytes = 0;
    (void)num_waits(reader, storage, [&](RecordBatch& batch) {
      batch.clear();
      if (leaves) reader.leave_buffer();
      bytes = std::max(bytes, pool.bytes_in_use());
    });
    return bytes;
  };
  EXPECT_LT(most(false, true), 1000);
  EXPECT_GT(most(false, false), 64 << 10);
  EXPECT_LT(most(true, true) * 5 / 3, most(true, false)) << "one chunk, not two";
}

TEST_F(ShardReaderTest, ReadingCanBeginAtAnyRecord) {
  const auto records = many_records([](size_t i) { return i % 13 * 100; }, 120);
  for (const Compression compression : {Compression::kNone, Compression::kZlib, Compression::kZstd}) {
    const std::string path = write("a.tfrecord", records, {.compression = compression});
    const ReadShard all = read_shard(local_, pool_, path, {}, true);
    for (const std::optional<Compression> declared : {std::optional(compression), std::optional<Compression>()}) {
      for (const size_t first : {0, 1, 50, 119}) {
        const ReadShard rest = read_shard(local_, pool_, path,
                                          {.compression = declared,
                                           .start = {all.records[first].offset, first},
                                           .num_records = 120,
                                           .chunk_bytes = 1000},
                                          true);
        EXPECT_TRUE(rest.faults.empty());
        ASSERT_EQ(rest.records.size(), 120 - first);
        EXPECT_TRUE(std::equal(rest.records.begin(), rest.records.end(), all.records.begin() + first));
      }
    }
  }
}

TEST_F(ShardReaderTest, PositionAfterTheLastRecordIsTheEnd) {
  const std::string path = write("a.tfrecord", {"abc"});
  const ReadShard rest =
      read_shard(local_, pool_, path, {.compression = Compression::kNone, .start = {19, 1}, .num_records = 1}, true);
  EXPECT_TRUE(rest.records.empty());
  EXPECT_TRUE(rest.faults.empty());
  const ReadShard beyond = read_shard(local_, pool_, path, {.compression = Compression::kNone, .start = {20, 1}}, true);
  ASSERT_EQ(beyond.faults.size(), 1U);
  EXPECT_EQ(beyond.faults[0].error.code, ErrorCode::kState);
}

TEST_F(ShardReaderTest, CompressedShardsThatUnpackToMuchMoreComeWhole) {
  // The last input may be taken while output is still to come: every place of the end against the buffers' ends.
  for (const Compression compression : {Compression::kZlib, Compression::kGzip, Compression::kZstd}) {
    for (size_t more = 0; more < 30; ++more) {
      const std::vector<std::string> records{std::string((256 << 10) - 30 + more, 'x')};
      const std::string path = write("a.tfrecord", records, {.compression = compression});
      const ReadShard read = read_shard(local_, pool_, path, {}, true);
      ASSERT_TRUE(read.faults.empty()) << more << " " << read.faults[0].error.to_string();
      ASSERT_EQ(payloads(read), records);
    }
  }
}

TEST_F(ShardReaderTest, WrongNumberOfRecordsIsCardinalityWithBothNumbers) {
  const std::string path = write("a.tfrecord", {"a", "b", "c"});
  for (const uint64_t promised : {0, 2, 4}) {
    const ReadShard read = read_shard(local_, pool_, path, {.num_records = promised}, false);
    EXPECT_EQ(read.records.size(), 3U);
    ASSERT_EQ(read.faults.size(), 1U);
    EXPECT_EQ(read.faults[0].error.code, ErrorCode::kCardinality);
    EXPECT_THAT(read.faults[0].error.message,
                HasSubstr(std::to_string(promised) + " records were promised, 3 are there"));
    EXPECT_THAT(read.faults[0].error.shard, HasSubstr("a.tfrecord"));
  }
}

TEST_F(ShardReaderTest, EmptyFileHasNoRecords) {
  const std::string path = write("a.tfrecord", {});
  EXPECT_TRUE(read_shard(local_, pool_, path, {.num_records = 0}, true).faults.empty());
  const ReadShard promised = read_shard(local_, pool_, path, {.num_records = 5}, true);
  ASSERT_EQ(promised.faults.size(), 1U);
  EXPECT_EQ(promised.faults[0].error.code, ErrorCode::kCardinality);
}

TEST_F(ShardReaderTest, MissingFileAndFolderAreErrorsOfTheStorage) {
  for (const std::string& path : {(folder_ / "none").string(), folder_.string()}) {
    const ReadShard read = read_shard(local_, pool_, path, {}, false);
    ASSERT_EQ(read.faults.size(), 1U);
    EXPECT_EQ(read.faults[0].error.code, ErrorCode::kIo);
    EXPECT_EQ(read.faults[0].error.shard, path);
    EXPECT_FALSE(read.faults[0].can_continue);
  }
}

TEST_F(ShardReaderTest, RetriableErrorsThatDoNotEndAreFinal) {
  const std::string path = write("a.tfrecord", {"a"});
  InjectingStorage storage(local_, {.retriable_error_rate = 1});  // two in a row, then success
  EXPECT_EQ(read_shard(storage, pool_, path, {.max_attempts = 3}, true).records.size(), 1U);
  const ReadShard read = read_shard(storage, pool_, path, {.max_attempts = 2}, true);
  ASSERT_EQ(read.faults.size(), 1U);
  EXPECT_EQ(read.faults[0].error.code, ErrorCode::kIo);
  EXPECT_THAT(read.faults[0].error.message, HasSubstr("after 2 attempts"));
}

TEST_F(ShardReaderTest, ErrorOfTheStorageComesAfterTheRecordsBeforeIt) {
  const auto records = many_records([](size_t) { return size_t{100}; }, 1000);
  const std::string path = write("a.tfrecord", records);
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    for (const int latency : {0, 50}) {
      InjectingStorage storage(
          local_,
          {.seed = seed, .max_latency = microseconds(latency), .max_read_bytes = 4000, .final_error_rate = 0.05});
      const ReadShard read = read_shard(storage, pool_, path, {.chunk_bytes = 10000}, false);
      if (storage.counts().final_errors == 0) continue;
      ASSERT_EQ(read.faults.size(), 1U);
      EXPECT_EQ(read.faults[0].error.code, ErrorCode::kIo);
      EXPECT_EQ(read.faults[0].error.record, static_cast<int64_t>(read.records.size()));
      EXPECT_EQ(read.faults[0].end, fs::file_size(path));
      for (size_t i = 0; i < read.records.size(); ++i) ASSERT_EQ(read.records[i].payload, records[i]);
    }
  }
}

TEST_F(ShardReaderTest, FileThatShrinksIsTruncated) {
  const auto records = many_records([](size_t) { return size_t{1000}; }, 100);
  const std::string path = write("a.tfrecord", records);
  ShardReader reader(local_, pool_, path, {.chunk_bytes = 5000}, [] {});
  RecordBatch batch;
  ASSERT_EQ(reader.next(batch), Step::kRecords);
  fs::resize_file(path, 50000);
  size_t seen = batch.size();
  Step step;
  while ((step = reader.next(batch)) == Step::kRecords) seen += batch.size();
  ASSERT_EQ(step, Step::kError);
  EXPECT_EQ(reader.fault().error.code, ErrorCode::kTruncated);
  EXPECT_THAT(reader.fault().error.message, HasSubstr("101600 bytes when it was opened and now ends after 50000"));
  EXPECT_EQ(seen, 50000U / 1016);
  EXPECT_EQ(reader.next(batch), Step::kEnd);
}

TEST_F(ShardReaderTest, OtherCompressedFormatsAreRefusedByName) {
  MemoryStorage storage;
  storage.add("z", std::string("\xfd"
                               "7zXZ\0",
                               6) +
                       std::string(100, 'x'));
  const ReadShard read = read_shard(storage, pool_, "z", {}, true);
  ASSERT_EQ(read.faults.size(), 1U);
  EXPECT_EQ(read.faults[0].error.code, ErrorCode::kCompression);
  EXPECT_THAT(read.faults[0].error.message, HasSubstr("the content is xz"));
}

TEST_F(ShardReaderTest, DeclaredCompressionThatIsNotTheContentsSaysBoth) {
  const std::string plain = write("plain", {"abc"});
  const std::string gzip = write("gzip", {"abc"}, {.compression = Compression::kGzip});
  const auto message = [&](const std::string& path, Compression declared) {
    const ReadShard read = read_shard(local_, pool_, path, {.compression = declared}, true);
    EXPECT_EQ(read.records.size(), 0U);
    return read.faults.size() == 1 ? read.faults[0].error.to_string() : "no error";
  };
  EXPECT_THAT(message(plain, Compression::kGzip),
              HasSubstr("compression: declared GZIP, the content is an uncompressed TFRecord file"));
  EXPECT_THAT(message(gzip, Compression::kNone), HasSubstr("declared uncompressed, the content is gzip"));
  EXPECT_THAT(message(gzip, Compression::kZlib), HasSubstr("declared ZLIB, the content is gzip"));
}

TEST_F(ShardReaderTest, AFileThatIsNoShardIsCalledWhatItIs) {
  const auto message = [&](const std::string& content) {
    MemoryStorage storage;
    storage.add("other.tfrecord", content);
    const ReadShard read = read_shard(storage, pool_, "other.tfrecord", {}, true);
    return read.faults.size() == 1 ? read.faults[0].error.to_string() : "no error";
  };
  EXPECT_THAT(message("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"),
              HasSubstr("length_crc: the record's length"));
  EXPECT_THAT(message("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"),
              HasSubstr("; the file begins like a Git LFS pointer (`git lfs pull` fetches the file itself), and is no "
                        "TFRecord file"));
  EXPECT_THAT(message("<!DOCTYPE html><html><body>Sign in</body></html>"), HasSubstr("begins like HTML, and is no"));
  EXPECT_THAT(message("<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>"), HasSubstr("like XML"));
  EXPECT_THAT(message(std::string("PK\x03\x04\x14\0\0\0\0\0\0\0\0\0", 14)), HasSubstr("a zip archive"));
  EXPECT_THAT(message("PAR1" + std::string(40, '\1')), HasSubstr("like Parquet"));
  EXPECT_THAT(message("Not found\n"), HasSubstr("begins with the text 'Not found', and is no TFRecord file"));
  EXPECT_THAT(message(R"({"text": "one"})"
                      "\n"),
              HasSubstr(R"(begins with the text '{"text": "one"}')"));
  EXPECT_THAT(message("\xef\xbb\xbf\n <!DOCTYPE html>"), HasSubstr("begins like HTML"));
  EXPECT_THAT(message("caf\xc3\xa9,1\nna\xc3\xafve,2\n"), HasSubstr("begins with the text 'caf\xc3\xa9,1'"));
  EXPECT_THAT(message(std::string("\xff\x06\0\0sNaPpY\x01\x05\0\0abcd0", 19)), HasSubstr("the content is snappy"));
  EXPECT_THAT(message(std::string("crc\0\0\0\2\0\x12\x34\x56\x78", 12)),
              HasSubstr("like the checksums that Hadoop writes beside a file (.NAME.crc), and is no TFRecord file"));
  EXPECT_THAT(message(std::string("\x0a\x23\xd7\xce\4\0\0\0\1\2\3\4", 12)), HasSubstr("like MXNet RecordIO"));
  for (const std::string& name : {std::string("000.txt"), std::string(100, 'n')}) {
    std::string tar = name + std::string(257 - name.size(), '\0') + "ustar";
    EXPECT_THAT(message(tar + std::string(250, '\0')), HasSubstr("like a tar archive")) << name;
    tar.back() = '.';
    EXPECT_THAT(message(tar + std::string(250, '\0')), testing::Not(HasSubstr("tar archive"))) << name;
  }
  const std::string damaged(40, '\1');
  EXPECT_THAT(message(damaged), testing::Not(HasSubstr("no TFRecord")));
  // A shard whose damage lies further on is one.
  std::ifstream stream(write("whole", {"a record"}), std::ios::binary);
  const std::string shard{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_THAT(message(shard + std::string(40, 'x')),
              testing::AllOf(HasSubstr("length_crc"), testing::Not(HasSubstr("no TFRecord"))));
}

TEST_F(ShardReaderTest, PlainFileWhoseLengthLooksLikeAMagicNumberIsStillPlain) {
  // 0x8b1f and 0x9c78 bytes: the length fields begin like gzip and zlib.
  const std::vector<std::string> records{std::string(0x8b1f, 'x'), std::string(0x9c78, 'y')};
  EXPECT_EQ(payloads(read_shard(local_, pool_, write("a", {records[0]}), {}, true)).size(), 1U);
  EXPECT_EQ(payloads(read_shard(local_, pool_, write("b", {records[1]}), {}, true)).size(), 1U);
}

TEST_F(ShardReaderTest, DestructionInTheMiddleOfAReadIsSafeAndWakesNobody) {
  const auto records = many_records([](size_t) { return size_t{1000}; }, 300);
  for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZstd}) {
    const std::string path = write("a.tfrecord", records, {.compression = compression});
    for (int round = 0; round < 60; ++round) {
      InjectingStorage storage(
          local_, {.seed = static_cast<uint64_t>(round), .max_latency = microseconds(200), .max_read_bytes = 9000});
      auto alive = std::make_unique<std::atomic<bool>>(true);
      {
        BufferPool pool;
        ShardReader reader(storage, pool, path, {.chunk_bytes = 8000}, [&alive] { EXPECT_TRUE(alive->load()); });
        RecordBatch batch;
        for (int i = 0; i < round % 12; ++i) {
          if (reader.next(batch) == Step::kPending) std::this_thread::sleep_for(microseconds(round * 7));
        }
        (void)reader.next(batch);
      }
      alive.reset();  // a wake from here on would be a use after free
    }
  }
}

// Opens at once; reads end only when they are cancelled.
class HangingStorage final : public Storage {
 public:
  void open(const std::string&, std::shared_ptr<OpenSink> sink) override {
    sink->open_done({.file = std::make_shared<HangingFile>(*this)});
  }
  [[nodiscard]] std::vector<std::string> glob(const std::string&) override { return {}; }
  int num_cancelled = 0;
  std::weak_ptr<ReadSink> reading;

 private:
  class HangingFile final : public File {
   public:
    explicit HangingFile(HangingStorage& storage) : storage_(storage) {}
    uint64_t size() const override { return 1000; }
    std::string version() const override { return "1"; }
    void read(uint64_t, std::span<std::byte>, std::shared_ptr<ReadSink> sink) override {
      storage_.reading = sink;
      sink_ = std::move(sink);
    }
    void cancel() override {
      ++storage_.num_cancelled;
      if (const auto sink = std::exchange(sink_, nullptr)) {
        sink->read_done({.ok = false, .error = {.error = {.code = ErrorCode::kIo, .message = "cancelled"}}});
      }
    }

   private:
    HangingStorage& storage_;
    std::shared_ptr<ReadSink> sink_;
  };
};

TEST_F(ShardReaderTest, DestructionCancelsTheReadInFlightAndFreesEverything) {
  HangingStorage storage;
  {
    ShardReader reader(storage, pool_, "a", {}, [] { ADD_FAILURE() << "woken"; });
    RecordBatch batch;
    EXPECT_EQ(reader.next(batch), Step::kPending);
    EXPECT_FALSE(storage.reading.expired());
    EXPECT_GT(pool_.bytes_in_use(), 0);
  }
  EXPECT_EQ(storage.num_cancelled, 1);
  EXPECT_TRUE(storage.reading.expired());
  EXPECT_EQ(pool_.bytes_in_use(), 0);
}

TEST_F(ShardReaderTest, NextLongRecordIsReadWhileTheLastIsUsed) {
  const auto records = many_records([](size_t) { return size_t{1} << 20; }, 12);
  const std::string path = write("a.tfrecord", records);
  for (const bool answers : {false, true}) {
    ManualStorage storage(local_);
    ShardReader reader(storage, pool_, path, {}, [] {});
    const int waits = num_waits(reader, storage, [&](RecordBatch&) {
      if (answers) storage.answer_all();
    });
    if (answers)
      EXPECT_EQ(waits, 3) << "for the file, its first chunk and the rest of the first";
    else
      EXPECT_GE(waits, 12) << "for each";
  }
}

TEST_F(ShardReaderTest, SteadyStateTakesNoFreshMemory) {
  const auto records = many_records([](size_t) { return size_t{500}; }, 20000);
  const std::string path = write("a.tfrecord", records);
  ShardReader reader(local_, pool_, path, {}, [] {});
  RecordBatch batch;
  for (int i = 0; i < 8; ++i) ASSERT_EQ(reader.next(batch), Step::kRecords);
  const int64_t before = pool_.fresh_allocations();
  int num_batches = 0;
  // The last chunk is shorter: its buffer is of another size.
  while (reader.position().offset + (512 << 10) < reader.file_bytes()) {
    ASSERT_EQ(reader.next(batch), Step::kRecords);
    ++num_batches;
  }
  EXPECT_GT(num_batches, 20);
  EXPECT_EQ(pool_.fresh_allocations(), before);
}

TEST_F(ShardReaderTest, ForgedLengthInACompressedShardTakesNoMemory) {
  for (const char* name : {"gzip_length_2e62_inside", "gzip_length_2e31_inside"}) {
    BufferPool pool;
    const std::string path = test::data_path("tfrecord/corrupt/") + name + ".tfrecord";
    EXPECT_EQ(read_shard(local_, pool, path, {}, true).faults.size(), 1U);
    // Within the limit: then only what the file can unpack to is left to stop it.
    EXPECT_EQ(read_shard(local_, pool, path, {.max_record_bytes = UINT64_MAX}, true).faults.size(), 1U);
    EXPECT_LE(pool.fresh_allocations(), 6);
    EXPECT_EQ(pool.bytes_in_use(), 0);
  }
}

// --- zstd
// -------------------------------------------------------------------------------------------------------------

TEST_F(ShardReaderTest, OfZstdGoesOnFromTheFrameThatHasTheRecord) {
  const auto records = many_records([](size_t) { return size_t{1000}; }, 4000);
  const std::string path =
      write("a.tfrecord.zst", records, {.compression = Compression::kZstd, .frame_bytes = 64 << 10});
  const uint64_t file_bytes = fs::file_size(path);
  ASSERT_GT(file_bytes, 500000U);
  for (const std::optional<Compression> declared : {std::optional(Compression::kZstd), std::optional<Compression>()}) {
    for (const uint64_t first : {uint64_t{1}, uint64_t{2000}, uint64_t{3999}, uint64_t{4000}}) {
      ShardReader reader(local_, pool_, path,
                         {.compression = declared, .start = {first * 1016, first}, .chunk_bytes = 4096}, [] {});
      RecordBatch batch;
      const Step step = reader.next(batch, 10);
      // The seek table, the frame, and what follows as far as a batch reaches (256 KiB, which pack to a quarter);
      // without a word on how it is stored its beginning too.
      const uint64_t most = (8 << 10) + (320 << 10) / 4 + 4096 + (declared ? 0 : 4096);
      ASSERT_LT(most, file_bytes / 5);
      EXPECT_LE(reader.num_file_bytes_read(), most) << first;
      EXPECT_LE(reader.num_skipped_bytes(), 64U << 10);
      if (first == 4000) {
        EXPECT_EQ(step, Step::kEnd);
        continue;
      }
      ASSERT_EQ(step, Step::kRecords);
      EXPECT_EQ(batch.first_record, first);
      EXPECT_EQ(batch.payloads[0], records[first]);
    }
  }
}

TEST_F(ShardReaderTest, OfZstdWithoutASeekTableIsUnpackedFromTheBeginning) {
  const ReadShard plain = read_shard(local_, pool_, test::data_path("tfrecord/few.tfrecord"), {}, true);
  ASSERT_EQ(plain.records.size(), 60U);
  for (const char* name : {"one_frame", "three_frames", "level_19"}) {
    const std::string path = test::data_path("zstd/") + name + ".tfrecord.zst";
    EXPECT_EQ(read_shard(local_, pool_, path, {}, true).records, plain.records) << name;
    for (const size_t first : {size_t{0}, size_t{5}, plain.records.size() - 1}) {
      const ReadShard rest = read_shard(
          local_, pool_, path,
          {.compression = Compression::kZstd, .start = {plain.records[first].offset, first}, .chunk_bytes = 100}, true);
      ASSERT_TRUE(rest.faults.empty()) << rest.faults[0].error.to_string();
      EXPECT_TRUE(std::equal(rest.records.begin(), rest.records.end(),
                             plain.records.begin() + static_cast<std::ptrdiff_t>(first), plain.records.end()));
    }
  }
  const ReadShard refused = read_shard(local_, pool_, test::data_path("zstd/long.tfrecord.zst"), {}, false);
  ASSERT_EQ(refused.faults.size(), 1U);
  EXPECT_THAT(refused.faults[0].error.to_string(),
              HasSubstr("needs a window of 134217728 bytes, 8388608 are read at most: compress with a level up to 19, "
                        "without --long (shard "));
}

TEST_F(ShardReaderTest, OfZstdWithASeekTableOfAnotherWriterGoesOnFromAFrameAndBehindDamageWithAnIndex) {
  const ReadShard plain = read_shard(local_, pool_, test::data_path("tfrecord/few.tfrecord"), {}, true);
  const std::string path = test::data_path("zstd/seekable.tfrecord.zst");
  EXPECT_EQ(read_shard(local_, pool_, path, {}, true).records, plain.records);
  for (size_t first = 0; first < plain.records.size(); ++first) {
    ShardReader reader(local_, pool_, path, {.start = {plain.records[first].offset, first}}, [] {});
    RecordBatch batch;
    ASSERT_EQ(reader.next(batch, 1), Step::kRecords);
    EXPECT_EQ(batch.payloads[0], plain.records[first].payload);
    EXPECT_LT(reader.num_skipped_bytes(), 1000U);
  }
  const auto index = std::make_shared<const ShardIndex>(build_shard_index(local_, path));
  ASSERT_TRUE(index->has_frames());
  // A frame in the middle of the file; which record comes after it only the index says.
  std::string bytes = test::read_file(path);
  const ShardIndex::Frame bad = index->frame(index->num_frames() / 2);
  bytes[(bad.begin + bad.end) / 2] = static_cast<char>(bytes[(bad.begin + bad.end) / 2] ^ 1);
  MemoryStorage storage;
  storage.add("seekable.tfrecord.zst", bytes);
  const ReadShard without = read_shard(storage, pool_, "seekable.tfrecord.zst", {}, false);
  const ReadShard with = read_shard(storage, pool_, "seekable.tfrecord.zst", {.index = index}, false);
  ASSERT_EQ(without.faults.size(), 1U);
  ASSERT_EQ(with.faults.size(), 1U);
  const auto lost = static_cast<size_t>(with.faults[0].num_records_lost.value());
  const auto kept = static_cast<size_t>(with.faults[0].error.record);
  EXPECT_FALSE(without.faults[0].can_continue);
  EXPECT_EQ(without.records.size(), kept);
  EXPECT_EQ(plain.records[kept].offset, with.faults[0].begin);
  EXPECT_GE(plain.records[kept].offset + plain.records[kept].payload.size() + 16, bad.offset);
  EXPECT_EQ(with.faults[0].end, index->first_from(bad.end_offset).offset);
  std::vector<test::ReadRecord> expected = plain.records;
  expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(kept),
                 expected.begin() + static_cast<std::ptrdiff_t>(kept + lost));
  EXPECT_EQ(with.records, expected);
}

TEST_F(ShardReaderTest, OfZstdLosesToADamagedFrameItsOwnRecordsAlone) {
  const auto records = many_records([](size_t i) { return i % 500; }, 1000);
  const std::string path = write("a", records, {.compression = Compression::kZstd, .frame_bytes = 4000});
  const ReadShard good = read_shard(local_, pool_, path, {}, true);
  std::string bytes = test::read_file(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  test::write_file(path, bytes);
  const ReadShard read = read_shard(local_, pool_, path, {.num_records = records.size()}, false);
  ASSERT_EQ(read.faults.size(), 1U);
  const RecordFault& fault = read.faults[0];
  EXPECT_EQ(fault.error.code, ErrorCode::kCompression);
  EXPECT_TRUE(fault.can_continue && fault.end_is_known);
  const auto first = static_cast<size_t>(fault.error.record);
  ASSERT_TRUE(fault.num_records_lost.has_value());
  EXPECT_LE(fault.end - fault.begin, 4000U);
  EXPECT_GE(*fault.num_records_lost, 5U);
  EXPECT_EQ(fault.begin, good.records[first].offset);
  EXPECT_EQ(fault.end, good.records[first + *fault.num_records_lost].offset);
  std::vector<test::ReadRecord> expected = good.records;
  expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(first),
                 expected.begin() + static_cast<std::ptrdiff_t>(first + *fault.num_records_lost));
  EXPECT_EQ(read.records, expected);
}

TEST_F(ShardReaderTest, OfZstdSaysWhenItsSeekTableIsBrokenAndLosesNothingToIt) {
  const auto records = many_records([](size_t i) { return i % 500; }, 1000);
  const std::string path = write("a", records, {.compression = Compression::kZstd, .frame_bytes = 4000});
  const ReadShard good = read_shard(local_, pool_, path, {}, true);
  std::string bytes = test::read_file(path);
  bytes[bytes.size() - 30] = static_cast<char>(bytes[bytes.size() - 30] ^ 4);
  test::write_file(path, bytes);
  for (const size_t first : {size_t{0}, size_t{600}}) {
    const ReadShard read = read_shard(local_, pool_, path,
                                      {.compression = Compression::kZstd,
                                       .start = {good.records[first].offset, first},
                                       .num_records = records.size()},
                                      false);
    ASSERT_EQ(read.faults.size(), 1U);
    EXPECT_EQ(read.faults[0].error.code, ErrorCode::kIndex);
    EXPECT_THAT(read.faults[0].error.message, HasSubstr("the seek table is broken: its bytes have the checksum"));
    EXPECT_THAT(read.faults[0].error.message, HasSubstr("; reading goes on without it"));
    EXPECT_EQ(read.records.size(), records.size() - first);
  }
}

TEST_F(ShardReaderTest, OfZstdWhoseTableCountsFewerRecordsThanThereAreEndsAtDamage) {
  const auto records = many_records([](size_t i) { return i % 500; }, 1000);
  const std::string path = write("a", records, {.compression = Compression::kZstd, .frame_bytes = 4000});
  const ReadShard good = read_shard(local_, pool_, path, {}, true);
  std::string bytes = test::read_file(path);
  const FrameTable table = FrameTable::parse(bytes, bytes.size());
  // One record in each frame, under a checksum that is right.
  std::vector<FrameTable::Entry> entries{{.packed_bytes = static_cast<uint32_t>(table.frames()[0].begin)}};
  for (const FrameTable::Frame& frame : table.frames()) {
    const FrameTable::Frame& next = (&frame)[1];
    entries.push_back({.packed_bytes = static_cast<uint32_t>(next.begin - frame.begin),
                       .bytes = static_cast<uint32_t>(next.offset - frame.offset),
                       .records = 1});
  }
  const FrameTable::Frame& bad = table.frames()[20];
  ASSERT_GT(bad.record, table.frames().size());
  bytes[bad.begin + 100] = static_cast<char>(bytes[bad.begin + 100] ^ 4);
  test::write_file(path, bytes.substr(0, table.end_of_frames()) + serialize_frame_table(entries));
  const ReadShard read = read_shard(local_, pool_, path, {}, false);
  ASSERT_EQ(read.faults.size(), 1U);
  EXPECT_EQ(read.faults[0].error.code, ErrorCode::kCompression);
  EXPECT_EQ(read.faults[0].begin, bad.offset);
  EXPECT_FALSE(read.faults[0].can_continue);
  EXPECT_EQ(read.records, std::vector(good.records.begin(), good.records.begin() + static_cast<ptrdiff_t>(bad.record)));
}

TEST_F(ShardReaderTest, OfZstdThatIsCutBetweenTwoFramesIsTruncated) {
  const auto records = many_records([](size_t i) { return i % 500; }, 1000);
  const std::string path = write("a", records, {.compression = Compression::kZstd, .frame_bytes = 4000});
  const std::string bytes = test::read_file(path);
  const FrameTable table = FrameTable::parse(bytes, bytes.size());
  const FrameTable::Frame& cut = table.frames()[20];
  test::write_file(path, bytes.substr(0, cut.begin));
  const ReadShard read = read_shard(local_, pool_, path, {}, false);
  EXPECT_EQ(read.records.size(), cut.record);
  ASSERT_EQ(read.faults.size(), 1U);
  EXPECT_EQ(read.faults[0].error.code, ErrorCode::kTruncated);
}

TEST_F(ShardReaderTest, OfZstdPassesEmptyFramesAndLongRecords) {
  std::vector<std::string> records = many_records([](size_t i) { return i % 700; }, 300);
  records[7] = std::string(5 << 20, 'x');
  for (size_t i = 0; i < (3 << 20); ++i) records[200] += static_cast<char>(i * i * 2654435761U >> 21);
  for (const size_t frame_bytes : {size_t{1}, size_t{1000}, size_t{64} << 20}) {
    const std::string path = write("a", records, {.compression = Compression::kZstd, .frame_bytes = frame_bytes});
    const ReadShard all = read_shard(local_, pool_, path, {.num_records = 300}, true);
    ASSERT_TRUE(all.faults.empty()) << all.faults[0].error.to_string();
    ASSERT_TRUE(payloads(all) == records);
    for (const size_t first : {size_t{7}, size_t{8}, size_t{201}}) {
      const ReadShard rest = read_shard(local_, pool_, path, {.start = {all.records[first].offset, first}}, true);
      ASSERT_TRUE(std::equal(rest.records.begin(), rest.records.end(),
                             all.records.begin() + static_cast<std::ptrdiff_t>(first), all.records.end()));
    }
  }
}

TEST_F(ShardReaderTest, TellsHowTheShardIsStored) {
  const std::string path = write("a.tfrecord", {"abc"}, {.compression = Compression::kGzip});
  ShardReader reader(local_, pool_, path, {}, [] {});
  RecordBatch batch;
  ASSERT_EQ(reader.next(batch), Step::kRecords);
  EXPECT_EQ(reader.compression(), Compression::kGzip);
  EXPECT_EQ(reader.file_bytes(), fs::file_size(path));
  EXPECT_FALSE(reader.file_version().empty());
  EXPECT_EQ(reader.position(), (RecordPosition{19, 1}));
}

}  // namespace
}  // namespace millrace::shard_reader_test
