#include "millrace/formats/tfrecord/index/index.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/crc.h"
#include "millrace/formats/tfrecord/index/index_builder.h"
#include "millrace/formats/tfrecord/writer.h"
#include "tests/fuzz/shard_index_fuzz.h"
#include "tests/support/memory_storage.h"
#include "tests/support/shard_driver.h"
#include "tests/support/temporary_folder.h"

namespace millrace::index_test {
namespace {

using test::MemoryStorage;
using test::read_shard;
using test::ReadShard;
using ::testing::HasSubstr;

std::string frame(std::string_view payload) {
  std::string bytes(12, '\0');
  const uint64_t length = payload.size();
  const uint32_t length_crc = masked_crc32c_of_length(length);
  const uint32_t crc = masked_crc32c(payload);
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, &length_crc, 4);
  bytes += payload;
  bytes.append(reinterpret_cast<const char*>(&crc), 4);
  return bytes;
}

std::vector<std::string> some_payloads(size_t count) {
  std::vector<std::string> payloads;
  for (size_t i = 0; i < count; ++i) payloads.push_back(std::to_string(i) + std::string(i * 37 % 300, 'a' + i % 26));
  return payloads;
}

std::string shard_of(const std::vector<std::string>& payloads) {
  std::string bytes;
  for (const std::string& payload : payloads) bytes += frame(payload);
  return bytes;
}

// Bytes with a length field put at `offset` whose CRC is right.
std::string with_length(std::string bytes, uint64_t offset, uint64_t length) {
  const uint32_t crc = masked_crc32c_of_length(length);
  std::memcpy(bytes.data() + offset, &length, 8);
  std::memcpy(bytes.data() + offset + 8, &crc, 4);
  return bytes;
}

class ShardIndexTest : public ::testing::Test {
 protected:
  std::shared_ptr<const ShardIndex> index_of(const std::string& path) {
    return std::make_shared<const ShardIndex>(build_shard_index(storage_, path));
  }
  // Why bytes are refused.
  static std::string problem(const std::string& bytes) {
    try {
      (void)ShardIndex::parse(bytes);
    } catch (const ErrorException& exception) {
      EXPECT_EQ(exception.error().code, ErrorCode::kIndex);
      return exception.error().message;
    }
    return "none";
  }
  std::string load_problem(const std::string& shard) {
    try {
      (void)load_shard_index(local_, shard);
    } catch (const ErrorException& exception) {
      EXPECT_EQ(exception.error().code, ErrorCode::kIndex) << exception.what();
      return exception.what();
    }
    return "none";
  }

  BufferPool pool_;
  MemoryStorage storage_;
  InlineExecutor executor_;
  LocalStorage local_{executor_};
  const test::TemporaryFolder folder_;
};

TEST_F(ShardIndexTest, HoldsTheOffsetOfEveryRecordAndReadsBackAsItWasWritten) {
  const auto payloads = some_payloads(2500);
  storage_.add("a/b.tfrecord", shard_of(payloads));
  const auto index = index_of("a/b.tfrecord");
  ASSERT_EQ(index->num_records(), 2500U);
  uint64_t offset = 0;
  for (size_t i = 0; i < payloads.size(); ++i) {
    ASSERT_EQ(index->offset(i), offset);
    offset += payloads[i].size() + 16;
  }
  EXPECT_EQ(index->num_bytes(), offset);
  EXPECT_EQ(index->fingerprint().name, "b.tfrecord");
  EXPECT_EQ(index->fingerprint().bytes, offset);
  EXPECT_EQ(index->compression(), Compression::kNone);
  EXPECT_EQ(index->tag(7), masked_crc32c(payloads[7]) & 0xffff);
  EXPECT_EQ(ShardIndex::parse(index->serialize()), *index);
}

TEST_F(ShardIndexTest, TakesThreeOrFourBytesARecordOnTheDisk) {
  storage_.add("a", shard_of(some_payloads(10000)));
  EXPECT_LE(index_of("a")->serialize().size(), 40200U);
}

TEST_F(ShardIndexTest, FindsTheFirstRecordFromAnyByteOn) {
  storage_.add("a", shard_of({"", "x", "yy"}));  // 0, 16, 33, end 51
  const auto index = index_of("a");
  EXPECT_EQ(index->first_from(0), (RecordPosition{0, 0}));
  EXPECT_EQ(index->first_from(1), (RecordPosition{16, 1}));
  EXPECT_EQ(index->first_from(33), (RecordPosition{33, 2}));
  EXPECT_EQ(index->first_from(34), (RecordPosition{51, 3}));
  EXPECT_EQ(index->first_from(500), (RecordPosition{51, 3}));
}

TEST_F(ShardIndexTest, AnEmptyShardHasAnIndex) {
  storage_.add("a", "");
  const auto index = index_of("a");
  EXPECT_EQ(index->num_records(), 0U);
  EXPECT_EQ(ShardIndex::parse(index->serialize()), *index);
}

TEST_F(ShardIndexTest, DamagedShardsHaveNone) {
  std::string bytes = shard_of(some_payloads(10));
  bytes[100] ^= 1;
  storage_.add("a", bytes);
  EXPECT_THROW((void)index_of("a"), ErrorException);
  storage_.add("b", shard_of(some_payloads(10)) + "x");
  EXPECT_THROW((void)index_of("b"), ErrorException);
}

TEST_F(ShardIndexTest, EveryFlippedBitAndEveryCutIsRefused) {
  storage_.add("a", shard_of(some_payloads(20)));
  const std::string bytes = index_of("a")->serialize();
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    EXPECT_THAT(problem(damaged), HasSubstr("the index is broken")) << bit;
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(problem(bytes.substr(0, size)), HasSubstr("the index is broken")) << size;
  }
  EXPECT_THAT(problem(bytes + "x"), HasSubstr("the index is broken"));
}

TEST_F(ShardIndexTest, AnotherVersionIsNamed) {
  storage_.add("a", "");
  std::string bytes = index_of("a")->serialize();
  bytes[8] = 7;
  EXPECT_THAT(problem(bytes), HasSubstr("it has version 7, this program reads 1"));
}

TEST_F(ShardIndexTest, LoadingComparesItWithTheShardAndNamesWhatDiffers) {
  const std::string path = folder_.path("a[1].tfrecord");
  const std::string bytes = shard_of(some_payloads(100));
  test::write_file(path, bytes);
  EXPECT_EQ(load_shard_index(local_, path), nullptr);
  const ShardIndex index = build_shard_index(local_, path);
  test::write_file(index_path(path), index.serialize());
  ASSERT_NE(load_shard_index(local_, path), nullptr);
  EXPECT_EQ(*load_shard_index(local_, path), index);

  test::write_file(path, bytes + frame("more"));
  EXPECT_THAT(load_problem(path),
              HasSubstr(fmt::format("it was made of {} bytes, the file has {}", bytes.size(), bytes.size() + 20)));
  std::string other = bytes;
  other[20] ^= 1;
  test::write_file(path, other);
  EXPECT_THAT(load_problem(path), HasSubstr("the first 4 KiB of the file are others"));
  EXPECT_THAT(load_problem(path), HasSubstr(".tfrecord.index"));
  other = bytes;
  other[other.size() - 1] ^= 1;
  test::write_file(path, other);
  EXPECT_THAT(load_problem(path), HasSubstr("the last 4 KiB of the file are others"));

  const std::string moved = folder_.path("moved.tfrecord");
  test::write_file(moved, bytes);
  test::write_file(index_path(moved), index.serialize());
  EXPECT_THAT(load_problem(moved), HasSubstr("it was made of 'a[1].tfrecord', the file is 'moved.tfrecord'"));
  test::write_file(index_path(moved), "MLRINDEX");
  EXPECT_THAT(load_problem(moved), HasSubstr("the index is broken"));
}

// --- reading with an index ------------------------------------------------------------------------------------------

TEST_F(ShardIndexTest, ABadLengthCostsOneRecordOfAPlainShard) {
  const auto payloads = some_payloads(300);
  const std::string bytes = shard_of(payloads);
  storage_.add("good/a", bytes);
  const auto index = index_of("good/a");
  for (const size_t bad : {0, 1, 150, 298, 299}) {
    std::string damaged = bytes;
    damaged[index->offset(bad) + 3] ^= 0x10;
    MemoryStorage storage;
    storage.add("a", damaged);
    for (const size_t chunk : {1, 50, 1 << 20}) {
      const ReadShard read =
          read_shard(storage, pool_, "a", {.num_records = 300, .index = index, .chunk_bytes = chunk}, false);
      ASSERT_EQ(read.faults.size(), 1U);
      EXPECT_EQ(read.faults[0].error.code, ErrorCode::kLengthCrc);
      EXPECT_TRUE(read.faults[0].can_continue);
      EXPECT_EQ(read.faults[0].begin, index->offset(bad));
      EXPECT_EQ(read.faults[0].end, index->offset(bad + 1));
      EXPECT_EQ(read.faults[0].num_records_lost, 1U);
      ASSERT_EQ(read.records.size(), 299U);
      for (const test::ReadRecord& record : read.records) {
        EXPECT_EQ(record.payload, payloads[record.index]);
        EXPECT_EQ(record.offset, index->offset(record.index));
        EXPECT_NE(record.index, bad);
      }
    }
    // Without the index the rest is lost, in bytes.
    const ReadShard read = read_shard(storage, pool_, "a", {}, false);
    ASSERT_EQ(read.faults.size(), 1U);
    EXPECT_FALSE(read.faults[0].can_continue);
    EXPECT_EQ(read.faults[0].begin, index->offset(bad));
    EXPECT_EQ(read.faults[0].end, bytes.size());
    EXPECT_TRUE(read.faults[0].end_is_known);
    EXPECT_EQ(read.faults[0].num_records_lost, std::nullopt);
    EXPECT_EQ(read.records.size(), bad);
  }
}

TEST_F(ShardIndexTest, AForgedLengthWithARightCrcCostsOneRecordAndTakesNoMemory) {
  const auto payloads = some_payloads(300);
  const std::string bytes = shard_of(payloads);
  storage_.add("good/a", bytes);
  const auto index = index_of("good/a");
  const std::initializer_list<uint64_t> lengths = {0, 5, 1000, 20000, 1ULL << 31, 1ULL << 33, 1ULL << 62, UINT64_MAX};
  for (const uint64_t length : lengths) {
    MemoryStorage storage;
    storage.add("a", with_length(bytes, index->offset(100), length));
    BufferPool pool;
    ShardReader reader(storage, pool, "a", {.index = index, .max_record_bytes = UINT64_MAX, .chunk_bytes = 4096},
                       [] {});
    RecordBatch batch;
    std::vector<std::string> read;
    int64_t most_memory = 0;
    int num_faults = 0;
    for (ShardReader::Step step; (step = reader.next(batch)) != ShardReader::Step::kEnd;) {
      most_memory = std::max(most_memory, pool.bytes_in_use());
      for (const std::string_view payload : batch.payloads) read.emplace_back(payload);
      if (step != ShardReader::Step::kError) continue;
      ++num_faults;
      EXPECT_EQ(reader.fault().begin, index->offset(100));
      EXPECT_EQ(reader.fault().end, index->offset(101));
      EXPECT_EQ(reader.fault().num_records_lost, 1U);
    }
    EXPECT_EQ(num_faults, 1) << length;
    ASSERT_EQ(read.size(), 299U) << length;
    EXPECT_EQ(read[99], payloads[99]);
    EXPECT_EQ(read[100], payloads[101]);
    EXPECT_LE(most_memory, static_cast<int64_t>(2 * bytes.size())) << length;
  }
}

TEST_F(ShardIndexTest, AnIndexThatSaysSomethingElseIsAnErrorThatLosesNothing) {
  const auto payloads = some_payloads(100);
  const std::string bytes = shard_of(payloads);
  storage_.add("good/a", bytes);
  const auto index = index_of("good/a");
  // Two records swapped: the size stays, the offsets do not.
  auto swapped = payloads;
  std::swap(swapped[40], swapped[41]);
  MemoryStorage storage;
  storage.add("a", shard_of(swapped));
  storage.add("b", bytes);
  const ReadShard read = read_shard(storage, pool_, "a", {.index = index}, false);
  ASSERT_EQ(read.faults.size(), 1U);
  EXPECT_EQ(read.faults[0].error.code, ErrorCode::kIndex);
  EXPECT_THAT(read.faults[0].error.message,
              HasSubstr(fmt::format("record 40 ends at {}, by the index at {}",
                                    index->offset(40) + 16 + swapped[40].size(), index->offset(41))));
  EXPECT_TRUE(read.faults[0].can_continue);
  EXPECT_EQ(read.faults[0].begin, read.faults[0].end);
  EXPECT_EQ(read.faults[0].num_records_lost, 0U);
  ASSERT_EQ(read.records.size(), 100U);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(read.records[i].payload, swapped[i]);

  // Another record of the same length: its tag differs.
  auto altered = payloads;
  altered[40][0] ^= 1;
  MemoryStorage third;
  third.add("a", shard_of(altered));
  const ReadShard other = read_shard(third, pool_, "a", {.index = index}, false);
  ASSERT_EQ(other.faults.size(), 1U);
  EXPECT_THAT(other.faults[0].error.to_string(), HasSubstr("index: the CRC of record 40 ends in"));
  EXPECT_EQ(other.records[40].payload, altered[40]);
  EXPECT_EQ(other.records.size(), 100U);

  const ReadShard foreign = read_shard(storage, pool_, "b", {.index = index}, false);
  ASSERT_EQ(foreign.faults.size(), 1U);
  EXPECT_THAT(foreign.faults[0].error.to_string(), HasSubstr("it was made of 'a', the file is 'b'"));
  EXPECT_EQ(foreign.records.size(), 100U);
  MemoryStorage longer;
  longer.add("a", bytes + frame("more"));
  const ReadShard stale = read_shard(longer, pool_, "a", {.index = index}, false);
  ASSERT_EQ(stale.faults.size(), 1U);
  EXPECT_THAT(stale.faults[0].error.to_string(), HasSubstr("made of"));
  EXPECT_EQ(stale.records.size(), 101U);
}

TEST_F(ShardIndexTest, AStartThatIsNoRecordOfTheIndexIsSaid) {
  const std::string bytes = shard_of({"abc", "", "de"});
  storage_.add("a", bytes);
  const auto index = index_of("a");
  const ReadShard read =
      read_shard(storage_, pool_, "a", {.compression = Compression::kNone, .start = {35, 1}, .index = index}, false);
  ASSERT_FALSE(read.faults.empty());
  EXPECT_EQ(read.faults[0].error.code, ErrorCode::kIndex);
  EXPECT_THAT(read.faults[0].error.message, HasSubstr("by the index record 1 begins at 19"));
}

TEST_F(ShardIndexTest, ParsingAnyBytesIsSafe) {
  test::fuzz_shard_index("");
  storage_.add("a", shard_of(some_payloads(30)));
  const std::string good = index_of("a")->serialize();
  test::fuzz_shard_index(good);
  uint64_t state = 1;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good.substr(12, good.size() - 20);  // the fuzzer puts the beginning and the checksum right
    for (int i = 0; i <= round % 4; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      bytes[(state >> 33) % bytes.size()] = static_cast<char>(state >> 20);
    }
    test::fuzz_shard_index(bytes);
  }
}

}  // namespace
}  // namespace millrace::index_test
