// What damage costs: random single-bit flips and planted faults, with and without an index.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/crc.h"
#include "millrace/formats/tfrecord/index/index.h"
#include "millrace/formats/tfrecord/index/index_builder.h"
#include "millrace/formats/tfrecord/shard_reader.h"
#include "millrace/formats/tfrecord/writer.h"
#include "tests/support/injecting_storage.h"
#include "tests/support/memory_storage.h"
#include "tests/support/places.h"
#include "tests/support/sanitized.h"
#include "tests/support/shard_driver.h"
#include "tests/support/temporary_folder.h"

namespace millrace::damage_test {
namespace {

using std::chrono::microseconds;
using test::InjectingStorage;
using test::MemoryStorage;
using test::read_shard;
using test::ReadShard;
using ::testing::HasSubstr;

uint64_t next_random(uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return state >> 24;
}

std::vector<std::string> text_records(size_t count, size_t most_bytes) {
  std::vector<std::string> records;
  uint64_t state = 5;
  for (size_t i = 0; i < count; ++i) {
    const size_t size = next_random(state) % (most_bytes + 1);
    std::string text = std::to_string(i) + ": ";
    while (text.size() < size) text += std::to_string(next_random(state) % 1000) + (i % 3 == 0 ? " and " : " ");
    text.resize(size);
    records.push_back(std::move(text));
  }
  return records;
}

/// A good shard, as it is stored, with its index.
struct GoodShard {
  std::vector<std::string> records;
  std::string bytes;
  std::shared_ptr<const ShardIndex> index;
};

GoodShard make_shard(const std::vector<std::string>& records, Compression compression, uint64_t point_distance,
                     int level = -1, size_t records_per_stream = SIZE_MAX) {
  const test::TemporaryFolder folder;
  GoodShard shard{.records = records};
  for (size_t first = 0; first < records.size();) {
    RecordWriter writer(
        folder.path("part"),
        {.compression = compression, .level = level, .frame_bytes = std::min<size_t>(point_distance, 256 << 10)});
    const size_t end = std::min(records.size() - first, records_per_stream) + first;
    for (; first < end; ++first) writer.write(records[first]);
    writer.close();
    shard.bytes += test::read_file(folder.path("part"));
  }
  MemoryStorage storage;
  storage.add("shard", shard.bytes);
  shard.index =
      std::make_shared<const ShardIndex>(build_shard_index(storage, "shard", {.seek_point_distance = point_distance}));
  return shard;
}

struct Loss {
  size_t num_faults = 0;
  uint64_t num_bytes = 0;
  uint64_t num_records = 0;
};

// Reads a damaged copy of a shard to its end: delivered records and the faults' regions follow one another without a
// gap from the first byte to the last, and every record that is delivered is the original one.
Loss expect_accounted(const GoodShard& good, Storage& storage, ShardReaderOptions options) {
  BufferPool pool;
  test::WakeFlag flag;
  const std::shared_ptr<const ShardIndex> known = good.index;
  ShardReader reader(storage, pool, "shard", options, [&flag] { flag.wake(); });
  RecordBatch batch;
  uint64_t at = 0;
  uint64_t num_delivered = 0;
  bool to_the_end = false;
  Loss loss;
  for (;;) {
    const ShardReader::Step step = reader.next(batch, 7);
    if (step == ShardReader::Step::kEnd) break;
    if (step == ShardReader::Step::kPending) {
      EXPECT_TRUE(flag.wait());
    } else if (step == ShardReader::Step::kRecords) {
      for (size_t i = 0; i < batch.size(); ++i) {
        const uint64_t record = batch.first_record + i;
        EXPECT_FALSE(to_the_end);
        EXPECT_EQ(batch.offsets[i], at);
        if (record >= good.records.size() || batch.payloads[i] != good.records[record]) {
          ADD_FAILURE() << "record " << record << " differs: " << batch.payloads[i];
          return loss;
        }
        EXPECT_EQ(at, known->offset(record));
        at = known->offset(record + 1);
        ++num_delivered;
      }
    } else {
      const RecordFault& fault = reader.fault();
      ++loss.num_faults;
      EXPECT_EQ(fault.begin, at) << fault.error.to_string();
      EXPECT_EQ(fault.error.offset, static_cast<int64_t>(at));
      EXPECT_EQ(fault.error.shard, "shard");
      at = fault.end;
      to_the_end = !fault.can_continue && fault.error.code != ErrorCode::kCardinality;
      if (to_the_end && !fault.end_is_known) at = known->num_bytes();
      if (options.index) {
        EXPECT_TRUE(fault.num_records_lost.has_value()) << fault.error.to_string();
        loss.num_records += fault.num_records_lost.value_or(0);
      }
      loss.num_bytes += at - fault.begin;
    }
    if (::testing::Test::HasFailure()) return loss;
  }
  EXPECT_TRUE(to_the_end || at == known->num_bytes());
  if (options.index) {
    EXPECT_EQ(at, known->num_bytes());
    EXPECT_EQ(num_delivered + loss.num_records, good.records.size());
  }
  // A flip that nobody reports changed no record.
  EXPECT_TRUE(loss.num_faults > 0 || num_delivered == good.records.size());
  return loss;
}

Loss expect_accounted(const GoodShard& good, const std::string& bytes, const ShardReaderOptions& options) {
  MemoryStorage storage;
  storage.add("shard", bytes);
  return expect_accounted(good, storage, options);
}

// tests/run.sh --soak sets the variable; then other bits are drawn each time.
bool is_soak() {
  const char* const soak = std::getenv("MILLRACE_SOAK");
  return soak != nullptr && std::string_view(soak) == "1";
}

constexpr uint64_t kDistance = 8 << 10;

struct Form {
  Compression compression;
  int level = -1;
  size_t records_per_stream = SIZE_MAX;
};

class BitFlips : public ::testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(, BitFlips,
                         ::testing::Values(Form{Compression::kNone}, Form{Compression::kZlib}, Form{Compression::kGzip},
                                           Form{Compression::kGzip, 6, 40}, Form{Compression::kZlib, 1, 90},
                                           Form{Compression::kZlib, 0}, Form{Compression::kZstd},
                                           Form{Compression::kZstd, 15}));

TEST_P(BitFlips, AreDetectedOrOutsideAnyRecordAndEveryLossIsListed) {
  const auto [compression, level, records_per_stream] = GetParam();
  const GoodShard good = make_shard(text_records(300, 700), compression, kDistance, level, records_per_stream);
  EXPECT_EQ(expect_accounted(good, good.bytes, {.index = good.index}).num_faults, 0U);
  EXPECT_EQ(expect_accounted(good, good.bytes, {}).num_faults, 0U);
  const uint64_t num_bytes = good.index->num_bytes();
  uint64_t state = is_soak() ? std::random_device()() : 99;
  int num_detected = 0;
  uint64_t lost_with = 0;
  uint64_t lost_without = 0;
  const int count = is_soak() ? 2000 : 100;
  for (int i = 0; i < count; ++i) {
    std::string damaged = good.bytes;
    const uint64_t bit = next_random(state) % (8 * damaged.size());
    damaged[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    const Loss with = expect_accounted(good, damaged, {.index = good.index, .chunk_bytes = 1000 + bit % 5000});
    const Loss without = expect_accounted(good, damaged, {.chunk_bytes = 1000 + bit % 5000});
    const Loss declared = expect_accounted(good, damaged, {.compression = compression});
    ASSERT_FALSE(HasFailure()) << "bit " << bit << " of " << 8 * damaged.size();
    EXPECT_EQ(with.num_faults > 0, declared.num_faults > 0) << "bit " << bit;
    // A record in front of the damage, and what is between two points, the next record's beginning included.
    const uint64_t most = compression == Compression::kNone ? 716 : 2 * kDistance + (level == 0 ? 65536 : 0) + 2 * 716;
    EXPECT_LE(with.num_bytes, most) << "bit " << bit;
    EXPECT_TRUE(compression != Compression::kNone || with.num_records == 1);
    num_detected += with.num_faults > 0;
    lost_with += with.num_bytes;
    lost_without += without.num_bytes;
  }
  RecordProperty("detected", num_detected);
  RecordProperty("lost_per_flip_with_index", static_cast<int>(lost_with / count));
  RecordProperty("lost_per_flip_without_index", static_cast<int>(lost_without / count));
  EXPECT_GE(num_detected, count * 9 / 10);
  if (compression == Compression::kZstd) {  // which says itself where its frames are
    EXPECT_LT(lost_without, 2 * lost_with);
  } else {
    EXPECT_LT(lost_with, lost_without);
  }
  EXPECT_GT(num_bytes, 100000U);
}

TEST(Damage, IsTheSameFromASlowStorage) {
  for (const Compression compression :
       {Compression::kNone, Compression::kZlib, Compression::kGzip, Compression::kZstd}) {
    const GoodShard good = make_shard(text_records(300, 700), compression, kDistance, 6,
                                      compression == Compression::kZstd ? SIZE_MAX : 120);
    uint64_t state = 7;
    for (int i = 0; i < 25; ++i) {
      std::string damaged = good.bytes;
      const uint64_t bit = next_random(state) % (8 * damaged.size());
      damaged[bit / 8] ^= static_cast<char>(1 << (bit % 8));
      MemoryStorage memory;
      memory.add("shard", damaged);
      InjectingStorage slow(memory, {.seed = bit,
                                     .min_latency = microseconds(0),
                                     .max_latency = microseconds(60),
                                     .max_read_bytes = 3000,
                                     .retriable_error_rate = 0.1});
      const Loss there = expect_accounted(good, slow, {.index = good.index, .chunk_bytes = 2000, .read_ahead = 3});
      const Loss here = expect_accounted(good, damaged, {.index = good.index});
      ASSERT_FALSE(testing::Test::HasFailure()) << "bit " << bit;
      EXPECT_EQ(there.num_bytes, here.num_bytes);
      EXPECT_EQ(there.num_records, here.num_records);
    }
  }
}

TEST(Damage, SeveralPlacesAreSeveralRegions) {
  for (const Compression compression :
       {Compression::kNone, Compression::kZlib, Compression::kGzip, Compression::kZstd}) {
    const GoodShard good = make_shard(text_records(600, 700), compression, kDistance, 6,
                                      compression == Compression::kZstd ? SIZE_MAX : 300);
    uint64_t state = 3;
    for (int i = 0; i < 25; ++i) {
      std::string damaged = good.bytes;
      for (int j = 0; j < 6; ++j) {
        const uint64_t bit = next_random(state) % (8 * damaged.size());
        damaged[bit / 8] ^= static_cast<char>(1 << (bit % 8));
      }
      // A hole of zeros too.
      std::fill_n(damaged.begin() + next_random(state) % (damaged.size() - 3000), 3000, '\0');
      const Loss loss = expect_accounted(good, damaged, {.index = good.index});
      ASSERT_FALSE(testing::Test::HasFailure()) << i;
      EXPECT_GE(loss.num_faults, 2U);
      EXPECT_LT(loss.num_records, 600U);
    }
  }
}

TEST(Damage, ABadTrailerBehindGoodRecordsLosesNoneAndIsReported) {
  const auto records = text_records(100, 300);
  for (const Compression compression : {Compression::kZlib, Compression::kGzip}) {
    for (const bool with_index : {false, true}) {
      const GoodShard good = make_shard(records, compression, kDistance, 6, 60);
      const GoodShard first = make_shard({records.begin(), records.begin() + 60}, compression, kDistance, 6);
      for (const size_t trailer_end : {first.bytes.size(), good.bytes.size()}) {
        std::string damaged = good.bytes;
        damaged[trailer_end - 1] ^= 4;
        const Loss loss = expect_accounted(good, damaged, {.index = with_index ? good.index : nullptr});
        EXPECT_EQ(loss.num_faults, 1U);
        EXPECT_EQ(loss.num_bytes, 0U);
        MemoryStorage storage;
        storage.add("shard", damaged);
        BufferPool pool;
        const ReadShard read = read_shard(storage, pool, "shard", {}, false);
        EXPECT_EQ(read.records.size(), 100U);
        ASSERT_EQ(read.faults.size(), 1U);
        EXPECT_TRUE(read.faults[0].can_continue);
        EXPECT_EQ(read.faults[0].num_records_lost, 0U);
        EXPECT_EQ(read.faults[0].error.code, ErrorCode::kCompression);
        EXPECT_THAT(read.faults[0].error.message, HasSubstr("its trailer says"));
      }
    }
  }
}

TEST(Damage, AWholeRecordInAnotherOnesPlaceIsNotDelivered) {
  std::vector<std::string> records;
  for (int i = 0; i < 40; ++i) records.push_back(fmt::format("record {:04} of equal length", i));
  const GoodShard good = make_shard(records, Compression::kGzip, ShardIndex::kPointDistance, 0);
  std::string damaged = good.bytes;
  const auto place = [&](size_t record) { return good.bytes.find(records[record]); };
  const size_t frame_bytes = records[0].size() + 16;
  std::copy_n(good.bytes.begin() + static_cast<ptrdiff_t>(place(5) - 12), frame_bytes,
              damaged.begin() + static_cast<ptrdiff_t>(place(9) - 12));
  const Loss loss = expect_accounted(good, damaged, {.index = good.index});
  EXPECT_EQ(loss.num_records, 1U);
  EXPECT_EQ(loss.num_bytes, frame_bytes);
  MemoryStorage storage;
  storage.add("shard", damaged);
  BufferPool pool;
  const ReadShard read = read_shard(storage, pool, "shard", {.index = good.index}, false);
  ASSERT_GE(read.faults.size(), 1U);
  EXPECT_EQ(read.faults[0].error.code, ErrorCode::kCompression);
  EXPECT_THAT(read.faults[0].error.message,
              HasSubstr("a whole record, but not the one that was indexed: the CRC of record 9"));
}

TEST(Damage, ABadLengthThatWasCompressedCostsOneRecordWithAnIndex) {
  // Broken before it was compressed: everything else is where the index says.
  const auto records = text_records(200, 300);
  const GoodShard good = make_shard(records, Compression::kGzip, kDistance, 0);
  // Stored blocks: the bytes can be found, and both checksums after them stay as they were.
  const std::string needle = records[100];
  ASSERT_GT(needle.size(), 20U);
  const size_t at = good.bytes.find(needle);
  ASSERT_NE(at, std::string::npos);
  std::string damaged = good.bytes;
  damaged[at - 10] ^= 1;  // in the length
  const Loss loss = expect_accounted(good, damaged, {.index = good.index});
  EXPECT_EQ(loss.num_records, 1U);
  EXPECT_EQ(loss.num_bytes, needle.size() + 16);
}

// An index whose seek points are nonsense, as only a forger can write it.
GoodShard with_broken_windows(GoodShard good) {
  ShardIndex::Parts parts;
  parts.fingerprint = good.index->fingerprint();
  parts.compression = good.index->compression();
  parts.entries.clear();
  for (uint64_t i = 0; i <= good.index->num_records(); ++i) {
    parts.entries.push_back(
        ShardIndex::entry(good.index->offset(i), i < good.index->num_records() ? good.index->tag(i) : 0));
  }
  parts.points.assign(good.index->points().begin(), good.index->points().end());
  for (SeekPoint& point : parts.points) {
    if (!point.packed_window.empty()) point.packed_window.resize(point.packed_window.size() / 2);
  }
  good.index = std::make_shared<const ShardIndex>(std::move(parts));
  return good;
}

TEST(Damage, ASeekPointThatMakesNoSenseIsSaidAndReadingGoesOnWithoutTheIndex) {
  const GoodShard good = with_broken_windows(make_shard(text_records(300, 700), Compression::kGzip, kDistance));
  MemoryStorage storage;
  storage.add("shard", good.bytes);
  BufferPool pool;
  const uint64_t record = 250;
  const ReadShard read =
      read_shard(storage, pool, "shard", {.start = {good.index->offset(record), record}, .index = good.index}, false);
  ASSERT_EQ(read.faults.size(), 1U);
  EXPECT_EQ(read.faults[0].error.code, ErrorCode::kIndex);
  EXPECT_THAT(read.faults[0].error.message, HasSubstr("the window of the seek point"));
  ASSERT_EQ(read.records.size(), 50U);
  for (const test::ReadRecord& one : read.records) EXPECT_EQ(one.payload, good.records[one.index]);

  // Where damage would need it, the rest is lost, and both are said.
  std::string damaged = good.bytes;
  std::fill_n(damaged.begin() + static_cast<ptrdiff_t>(damaged.size() / 2), 300, '\xff');
  storage.add("shard", damaged);
  const Loss loss = expect_accounted(good, damaged, {.index = good.index});
  EXPECT_GT(loss.num_records, 50U);
  std::string messages;
  for (const RecordFault& fault : read_shard(storage, pool, "shard", {.index = good.index}, false).faults) {
    messages += fault.error.to_string();
  }
  EXPECT_THAT(messages, HasSubstr("the window of the seek point"));
}

// --- planted faults -------------------------------------------------------------------------------------------------

TEST(Damage, OfTheFixturesLosesWithAnIndexOnlyWhatIsDamaged) {
  const std::string folder = test::data_path("tfrecord/corrupt/");
  const nlohmann::json manifest = nlohmann::json::parse(test::read_file(folder + "manifest.json"));
  std::map<std::string, GoodShard> good_shards;
  for (const char* const form : {"", "GZIP", "ZLIB"}) {
    const std::string key = *form == '\0' ? "file" : *form == 'G' ? "gzip" : "zlib";
    GoodShard& good = good_shards[form];
    good.bytes = test::read_file(folder + manifest.at("base").at(key).get<std::string>());
    MemoryStorage storage;
    storage.add("shard", good.bytes);
    good.index = std::make_shared<const ShardIndex>(build_shard_index(storage, "shard", {.seek_point_distance = 300}));
    BufferPool pool;
    for (const auto& record : read_shard(storage, pool, "shard", {}, true).records)
      good.records.push_back(record.payload);
    ASSERT_EQ(good.records.size(), 12U);
  }
  int num_reached = 0;
  int num_of_other_size = 0;
  for (const nlohmann::json& entry : manifest.at("files")) {
    const std::string name = entry.at("file");
    const std::string form = entry.at("compression");
    GoodShard good = good_shards.at(form);
    if (name.starts_with("gzip_length")) {
      // Compressed with the wrong length inside: the same records, but other places to begin unpacking.
      MemoryStorage storage;
      storage.add("shard", good.bytes);
      good.index = std::make_shared<const ShardIndex>(build_shard_index(storage, "shard"));
    }
    const std::string bytes = test::read_file(folder + name);
    const auto before = entry.at("intact_before").get<size_t>();
    const auto after = entry.at("intact_after").get<size_t>();
    MemoryStorage storage;
    storage.add("shard", bytes);
    BufferPool pool;
    const ShardReaderOptions options{.compression = compression_from_name(form), .index = good.index};
    const ReadShard read = read_shard(storage, pool, "shard", options, false);
    if (bytes.size() != good.bytes.size() || name.find("_read_as_") != std::string::npos) {
      // Cut, longer or another file: the index is refused and loses nothing.
      ShardReaderOptions without = options;
      without.index = nullptr;
      const ReadShard expected = read_shard(storage, pool, "shard", without, false);
      EXPECT_EQ(read.records, expected.records) << name;
      ASSERT_EQ(read.faults.size(), expected.faults.size() + (bytes.size() != good.bytes.size() ? 1 : 0)) << name;
      EXPECT_TRUE(bytes.size() == good.bytes.size() || read.faults[0].error.code == ErrorCode::kIndex) << name;
      ++num_of_other_size;
      continue;
    }
    const Loss loss = expect_accounted(good, bytes, options);
    ASSERT_FALSE(HasFailure()) << name;
    EXPECT_GT(loss.num_faults, 0U) << name;
    // The manifest says what a reader can reach that knows where records begin: of damaged deflate data nothing after
    // the damage, where seek points know more.
    EXPECT_GE(read.records.size(), std::min<size_t>(before + after, 12)) << name;
    if (form.empty() && name.find("two_payloads") == std::string::npos) {
      EXPECT_EQ(read.records.size(), before + after) << name;
    }
    ++num_reached;
  }
  EXPECT_GE(num_reached, 50);
  EXPECT_GE(num_of_other_size, 50);
}

// --- any record -----------------------------------------------------------------------------------------------------

struct ReachForm {
  const char* name;
  Compression compression;
  int level;
  size_t records_per_stream;
};

class AnyRecord : public ::testing::TestWithParam<ReachForm> {};
INSTANTIATE_TEST_SUITE_P(, AnyRecord,
                         ::testing::Values(ReachForm{"plain", Compression::kNone, 0, SIZE_MAX},
                                           ReachForm{"zlib", Compression::kZlib, 6, SIZE_MAX},
                                           ReachForm{"gzip", Compression::kGzip, 6, SIZE_MAX},
                                           ReachForm{"stored", Compression::kGzip, 0, SIZE_MAX},
                                           ReachForm{"members", Compression::kGzip, 1, 20},
                                           ReachForm{"streams", Compression::kZlib, 9, 55},
                                           ReachForm{"zstd", Compression::kZstd, 3, SIZE_MAX}),
                         [](const auto& form) { return form.param.name; });

TEST_P(AnyRecord, IsReachedFromItsIndexEntryAndAtMostAMebibyteIsUnpackedBeforeIt) {
  std::vector<std::string> records = text_records(120, 60000);
  records[30] = std::string(3 << 20, 'x');  // deflate blocks of more than a mebibyte
  records[31] = std::string(2500000, 'y');
  const GoodShard good = make_shard(records, GetParam().compression, ShardIndex::kPointDistance, GetParam().level,
                                    GetParam().records_per_stream);
  MemoryStorage storage;
  storage.add("shard", good.bytes);
  uint64_t most_skipped = 0;
  for (uint64_t record = 0; record <= records.size(); record += test::kStride) {
    BufferPool pool;
    ShardReader reader(
        storage, pool, "shard",
        {.start = {good.index->offset(record), record}, .num_records = records.size(), .index = good.index}, [] {});
    RecordBatch batch;
    const ShardReader::Step step = reader.next(batch, 1);
    most_skipped = std::max(most_skipped, reader.num_skipped_bytes());
    if (record == records.size()) {
      EXPECT_EQ(step, ShardReader::Step::kEnd);
      continue;
    }
    ASSERT_EQ(step, ShardReader::Step::kRecords) << record;
    EXPECT_EQ(batch.first_record, record);
    EXPECT_EQ(batch.offsets[0], good.index->offset(record));
    ASSERT_TRUE(batch.payloads[0] == records[record]) << record;
    if (record % 16 != 0) continue;
    // And the rest comes after it, its end and trailer included.
    uint64_t seen = record + 1;
    ShardReader::Step last;
    while ((last = reader.next(batch)) == ShardReader::Step::kRecords) {
      for (const std::string_view payload : batch.payloads) ASSERT_TRUE(payload == records[seen++]);
    }
    EXPECT_EQ(last, ShardReader::Step::kEnd);
    EXPECT_EQ(seen, records.size());
  }
  EXPECT_LE(most_skipped, ShardIndex::kMostUnpackedBefore);
  if (GetParam().compression != Compression::kNone) {
    EXPECT_GT(most_skipped, 0U);
    EXPECT_GE(good.index->points().size(), 7U);
  }
}

}  // namespace
}  // namespace millrace::damage_test
