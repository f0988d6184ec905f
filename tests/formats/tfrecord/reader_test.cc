#include "millrace/formats/tfrecord/reader.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/file_feed.h"
#include "millrace/formats/tfrecord/crc.h"
#include "millrace/formats/tfrecord/frame.h"
#include "tests/fuzz/record_reader_fuzz.h"
#include "tests/support/damage.h"

namespace millrace::reader_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Step = RecordReader::Step;

template <typename T>
void append_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string header(uint64_t length) {
  std::string out;
  append_raw(out, length);
  append_raw(out, masked_crc32c_of_length(length));
  return out;
}

std::string frame(std::string_view payload) {
  std::string out = header(payload.size());
  out += payload;
  append_raw(out, masked_crc32c(payload));
  return out;
}

struct Outcome {
  std::vector<std::string> records;
  std::vector<uint64_t> offsets;
  std::vector<Error> errors;
  int64_t most_memory = 0;
};

// kPieces: of the memory that is prepared no more than a chunk is filled.
enum class Way { kPrepare, kPieces, kFeedWithHeadroom, kFeedWithout };

// Reads everything, passing errors where that is possible.
Outcome read_all(std::string_view bytes, size_t chunk, Way way, RecordReaderOptions options) {
  BufferPool pool;
  RecordReader reader(pool, options);
  Outcome outcome;
  RecordBatch batch;
  size_t fed = 0;
  for (;;) {
    switch (reader.next(batch)) {
      case Step::kRecords:
        EXPECT_EQ(batch.first_record, outcome.records.size() + outcome.errors.size());
        for (size_t i = 0; i < batch.size(); ++i) {
          outcome.records.emplace_back(batch.payloads[i]);
          outcome.offsets.push_back(batch.offsets[i]);
        }
        break;
      case Step::kNeedBytes: {
        EXPECT_EQ(reader.next_byte(), fed + options.start.offset);
        const size_t left = bytes.size() - fed;
        if (left == 0) {
          reader.finish();
        } else if (way == Way::kPrepare || way == Way::kPieces) {
          const std::span<std::byte> room = reader.prepare(chunk);
          EXPECT_FALSE(room.empty());
          const size_t count = std::min({room.size(), left, way == Way::kPieces ? chunk : left});
          std::memcpy(room.data(), bytes.data() + fed, count);
          reader.commit(count);
          fed += count;
        } else {
          const size_t begin = way == Way::kFeedWithHeadroom ? kChunkHeadroom : 0;
          const size_t count = std::min(chunk, left);
          Buffer buffer = pool.allocate(begin + count);
          std::memcpy(buffer->data() + begin, bytes.data() + fed, count);
          reader.feed(std::move(buffer), begin, begin + count);
          fed += count;
        }
        outcome.most_memory = std::max(outcome.most_memory, pool.bytes_in_use());
        break;
      }
      case Step::kError: outcome.errors.push_back(reader.fault().error); break;
      case Step::kEnd: return outcome;
    }
  }
}

RecordReaderOptions exact(std::string_view bytes) {
  return {.shard = "shard", .max_shard_bytes = bytes.size(), .size_is_exact = true};
}

TEST(RecordReader, DeliversTheSameRecordsHoweverTheBytesAreCut) {
  std::string bytes;
  std::vector<std::string> expected;
  std::vector<uint64_t> offsets;
  for (size_t i = 0; i < 60; ++i) {
    expected.emplace_back(i % 5 == 0 ? 0 : (i * 37) % 200 + (i == 31 ? 5000 : 0), static_cast<char>('a' + i % 26));
    offsets.push_back(bytes.size());
    bytes += frame(expected.back());
  }
  for (const Way way : {Way::kPrepare, Way::kFeedWithHeadroom, Way::kFeedWithout}) {
    for (const bool known : {true, false}) {
      for (const size_t chunk : {1, 2, 3, 7, 12, 13, 16, 17, 100, 1000, 4096, 1 << 20}) {
        const Outcome outcome = read_all(bytes, chunk, way, known ? exact(bytes) : RecordReaderOptions{});
        ASSERT_EQ(outcome.records, expected) << chunk;
        ASSERT_EQ(outcome.offsets, offsets) << chunk;
        ASSERT_TRUE(outcome.errors.empty()) << outcome.errors[0].to_string();
      }
    }
  }
}

TEST(RecordReader, EmptyShardIsTheEnd) {
  EXPECT_TRUE(read_all("", 1, Way::kPrepare, {}).records.empty());
  EXPECT_TRUE(read_all("", 1, Way::kPrepare, {}).errors.empty());
}

TEST(RecordReader, BadPayloadCostsOneRecord) {
  std::string bytes = frame("first") + frame("second") + frame("third");
  bytes[21 + 12 + 2] ^= 1;
  for (const size_t chunk : {1, 10, 1000}) {
    const Outcome outcome = read_all(bytes, chunk, Way::kPrepare, exact(bytes));
    EXPECT_THAT(outcome.records, ElementsAre("first", "third"));
    ASSERT_EQ(outcome.errors.size(), 1U);
    EXPECT_EQ(outcome.errors[0].code, ErrorCode::kPayloadCrc);
    EXPECT_EQ(outcome.errors[0].offset, 21);
    EXPECT_EQ(outcome.errors[0].record, 1);
    EXPECT_EQ(outcome.errors[0].shard, "shard");
  }
}

TEST(RecordReader, FaultSaysWhichBytesAreLost) {
  std::string bytes = frame("first") + frame("second") + frame("third");
  bytes[21 + 12] ^= 1;       // payload of "second"
  bytes[21 + 22 + 3] ^= 64;  // length of "third"
  BufferPool pool;
  RecordReader reader(pool, exact(bytes));
  RecordBatch batch;
  ASSERT_EQ(reader.next(batch), Step::kNeedBytes);
  std::memcpy(reader.prepare(1000).data(), bytes.data(), bytes.size());
  reader.commit(bytes.size());
  ASSERT_EQ(reader.next(batch), Step::kRecords);
  ASSERT_EQ(reader.next(batch), Step::kError);
  EXPECT_TRUE(reader.fault().can_continue);
  EXPECT_EQ(reader.fault().begin, 21U);
  EXPECT_EQ(reader.fault().end, 43U);
  EXPECT_EQ(reader.position(), (RecordPosition{43, 2}));
  ASSERT_EQ(reader.next(batch), Step::kError);
  EXPECT_EQ(reader.fault().error.code, ErrorCode::kLengthCrc);
  EXPECT_FALSE(reader.fault().can_continue);
  EXPECT_EQ(reader.fault().begin, 43U);
  EXPECT_EQ(reader.fault().end, bytes.size());
  EXPECT_EQ(reader.next(batch), Step::kEnd);
}

TEST(RecordReader, BytesAfterTheLastRecordAreNeverSilent) {
  const std::string good = frame("first");
  const std::string next = frame("0123456789");
  for (size_t count = 1; count < next.size(); ++count) {
    const std::string bytes = good + next.substr(0, count);
    for (const bool known : {true, false}) {
      const Outcome outcome = read_all(bytes, 1000, Way::kPrepare, known ? exact(bytes) : RecordReaderOptions{});
      EXPECT_THAT(outcome.records, ElementsAre("first"));
      ASSERT_EQ(outcome.errors.size(), 1U) << count;
      EXPECT_EQ(outcome.errors[0].code, ErrorCode::kTruncated) << outcome.errors[0].to_string();
      EXPECT_EQ(outcome.errors[0].offset, 21);
      EXPECT_EQ(outcome.errors[0].record, 1);
    }
  }
}

TEST(RecordReader, ForgedLengthsTakeNoMemory) {
  for (const uint64_t length : {uint64_t{1} << 24, uint64_t{1} << 31, uint64_t{1} << 33, uint64_t{1} << 62,
                                (uint64_t{1} << 63) - 1, ~uint64_t{0}, ~uint64_t{0} - 15}) {
    const std::string bytes = frame("first") + header(length) + std::string(100, 'x');
    for (const bool known : {true, false}) {
      const Outcome outcome = read_all(bytes, 64, Way::kPrepare, known ? exact(bytes) : RecordReaderOptions{});
      EXPECT_THAT(outcome.records, ElementsAre("first"));
      ASSERT_EQ(outcome.errors.size(), 1U);
      EXPECT_EQ(outcome.errors[0].code,
                length > uint64_t{1} << 30 ? ErrorCode::kRecordTooLarge : ErrorCode::kTruncated);
      EXPECT_THAT(outcome.errors[0].message, HasSubstr(std::to_string(length)));
      EXPECT_LE(outcome.most_memory, 2048);
    }
  }
}

TEST(RecordReader, LimitOfRecordsIsTheCallers) {
  const std::string bytes = frame("first") + frame(std::string(101, 'x'));
  RecordReaderOptions options = exact(bytes);
  options.max_record_bytes = 100;
  const Outcome outcome = read_all(bytes, 1000, Way::kPrepare, options);
  EXPECT_THAT(outcome.records, ElementsAre("first"));
  ASSERT_EQ(outcome.errors.size(), 1U);
  EXPECT_EQ(outcome.errors[0].code, ErrorCode::kRecordTooLarge);
}

TEST(RecordReader, BatchesEndWhereTheCallerWants) {
  std::string bytes;
  for (int i = 0; i < 5; ++i) bytes += frame(std::to_string(i));
  BufferPool pool;
  RecordReader reader(pool, exact(bytes));
  RecordBatch batch;
  ASSERT_EQ(reader.next(batch), Step::kNeedBytes);
  std::memcpy(reader.prepare(1000).data(), bytes.data(), bytes.size());
  reader.commit(bytes.size());
  ASSERT_EQ(reader.next(batch, 2), Step::kRecords);
  EXPECT_THAT(batch.payloads, ElementsAre("0", "1"));
  ASSERT_EQ(reader.next(batch, 2), Step::kRecords);
  EXPECT_THAT(batch.payloads, ElementsAre("2", "3"));
  EXPECT_EQ(batch.first_record, 2U);
  EXPECT_EQ(reader.position(), (RecordPosition{17 * 4, 4}));
}

TEST(RecordReader, ReadingCanBeginAtAnyRecord) {
  const std::string bytes = frame("first") + frame("second") + frame("third");
  RecordReaderOptions options = exact(bytes);
  options.start = {.offset = 21, .record = 1};
  BufferPool pool;
  RecordReader reader(pool, options);
  RecordBatch batch;
  ASSERT_EQ(reader.next(batch), Step::kNeedBytes);
  const std::span<std::byte> room = reader.prepare(1000);
  ASSERT_GE(room.size(), bytes.size() - 21);
  std::memcpy(room.data(), bytes.data() + 21, bytes.size() - 21);
  reader.commit(bytes.size() - 21);
  ASSERT_EQ(reader.next(batch), Step::kRecords);
  EXPECT_THAT(batch.payloads, ElementsAre("second", "third"));
  EXPECT_THAT(batch.offsets, ElementsAre(21, 43));
  EXPECT_EQ(batch.first_record, 1U);
}

TEST(RecordReader, LongRecordsAreReadStraightIntoTheirPlace) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += frame(std::string(3 << 20, static_cast<char>('a' + i)));
  BufferPool pool;
  RecordReader reader(pool, exact(bytes));
  RecordBatch batch;
  size_t fed = 0;
  int reads = 0;
  for (int records = 0;;) {
    const Step step = reader.next(batch);
    if (step == Step::kEnd) break;
    ASSERT_NE(step, Step::kError);
    if (step == Step::kRecords) {
      records += static_cast<int>(batch.size());
      continue;
    }
    if (fed == bytes.size()) {
      reader.finish();
      continue;
    }
    const std::span<std::byte> room = reader.prepare(256 << 10);
    std::memcpy(room.data(), bytes.data() + fed, room.size());
    reader.commit(room.size());
    fed += room.size();
    ++reads;
    // After a long record only the header of the next was read: nothing long is ever moved.
    if (records > 0) {
      EXPECT_LE(reader.num_available() - room.size(), 12U);
    }
  }
  EXPECT_EQ(reads, 5);  // 256 KiB that show the first length, then one read for each record
}

TEST(RecordReader, ChunksEndBehindAHeaderWhereRecordsAreOfOneLength) {
  std::string bytes;
  for (int i = 0; i < 40; ++i) bytes += frame(std::string(10000, static_cast<char>('a' + i % 26)));
  BufferPool pool;
  RecordReader reader(pool, exact(bytes));
  RecordBatch batch;
  size_t fed = 0;
  std::vector<size_t> records;  // of each read
  for (Step step; (step = reader.next(batch)) != Step::kEnd;) {
    ASSERT_NE(step, Step::kError);
    if (step == Step::kRecords) {
      records.push_back(batch.size());
      continue;
    }
    if (fed == bytes.size()) {
      reader.finish();
      continue;
    }
    if (fed > 0) {
      EXPECT_LE(reader.num_available(), records.size() == 1 ? 10016U : kFrameHeaderBytes)
          << "bytes that are copied to where the rest will come, after read " << records.size();
    }
    const std::span<std::byte> room = reader.prepare(64 << 10);
    std::memcpy(room.data(), bytes.data() + fed, room.size());
    reader.commit(room.size());
    fed += room.size();
  }
  EXPECT_THAT(records, ElementsAre(6, 7, 6, 6, 6, 6, 3)) << "and the rest of the one that was cut first";
}

TEST(RecordReader, ChunksEndWhereTheyShallIfWholeRecordsAreNotWanted) {
  std::string bytes;
  for (int i = 0; i < 40; ++i) bytes += frame(std::string(10000, 'x'));
  BufferPool pool;
  RecordReader reader(pool, exact(bytes));
  std::memcpy(reader.prepare(15000).data(), bytes.data(), 15000);
  reader.commit(15000);
  RecordBatch batch;
  ASSERT_EQ(reader.next(batch), Step::kRecords);
  EXPECT_EQ(reader.prepare(64 << 10).size(), 5032U + kFrameHeaderBytes + 6 * 10016U);
  EXPECT_EQ(reader.prepare(64 << 10, /*whole_records=*/false).size(), size_t{64 << 10});
}

TEST(RecordReader, LongRecordsThatComeInPiecesStayInTheirPlace) {
  std::string bytes;
  // Of some the place has hardly a byte to spare.
  for (int i = 0; i < 8; ++i) bytes += frame(std::string((7 << 19) - 200 - i / 2 * 77'000, static_cast<char>('a' + i)));
  BufferPool pool;
  RecordReader reader(pool, exact(bytes));
  RecordBatch batch;
  size_t fed = 0;
  for (;;) {
    const Step step = reader.next(batch);
    if (step == Step::kEnd) break;
    ASSERT_NE(step, Step::kError);
    if (step == Step::kRecords) {
      EXPECT_LE(reader.num_available(), 12U) << "no more of the next one than its header";
    } else if (fed == bytes.size()) {
      reader.finish();
    } else {
      const bool begun = reader.num_available() > 256 << 10;
      const Buffer before = begun ? reader.buffer() : Buffer();
      EXPECT_EQ(reader.has_room_for(reader.num_missing()), begun)
          << "of which the first 256 KiB are moved, where they show a length";
      const std::span<std::byte> room = reader.prepare(256 << 10);
      if (begun) {
        EXPECT_EQ(reader.buffer(), before) << "with " << reader.num_missing() << " bytes missing";
      }
      const size_t count = std::min(room.size(), size_t{300'000});
      std::memcpy(room.data(), bytes.data() + fed, count);
      reader.commit(count);
      fed += count;
    }
  }
}

// Their checksum is taken as they come.
TEST(RecordReader, AChangedBitAnywhereInALongRecordIsFoundHoweverItComes) {
  const std::string first(700'000, 'a');
  const std::string second(1'300'000, 'b');
  const std::string bytes = frame(first) + frame(second) + frame("third");
  const size_t begin = frame(first).size() + 12;  // of the second one's payload
  for (const Way way : {Way::kPrepare, Way::kPieces, Way::kFeedWithHeadroom, Way::kFeedWithout}) {
    for (const size_t chunk : {size_t{50'001}, size_t{512} << 10, size_t{1} << 20, bytes.size()}) {
      EXPECT_THAT(read_all(bytes, chunk, way, exact(bytes)).records, ElementsAre(first, second, "third")) << chunk;
      for (const size_t place : {size_t{12}, size_t{12 + 650'000}, begin, begin + 700'000, begin + second.size() - 1,
                                 begin + second.size() + 3}) {
        std::string damaged = bytes;
        damaged[place] ^= 16;
        const Outcome outcome = read_all(damaged, chunk, way, exact(bytes));
        EXPECT_THAT(outcome.records, ElementsAre(place < begin ? second : first, "third")) << chunk << ", " << place;
        ASSERT_EQ(outcome.errors.size(), 1U);
        EXPECT_EQ(outcome.errors[0].code, ErrorCode::kPayloadCrc);
      }
    }
  }
}

TEST(RecordReader, BuffersAreRecycled) {
  std::string bytes;
  for (int i = 0; i < 3000; ++i) bytes += frame(std::string(100, 'x'));
  BufferPool pool;
  RecordReader reader(pool, exact(bytes));
  RecordBatch batch;
  size_t fed = 0;
  for (Step step; (step = reader.next(batch)) != Step::kEnd;) {
    if (step != Step::kNeedBytes) continue;
    if (fed == bytes.size()) {
      reader.finish();
      continue;
    }
    const std::span<std::byte> room = reader.prepare(8 << 10);
    std::memcpy(room.data(), bytes.data() + fed, room.size());
    reader.commit(room.size());
    fed += room.size();
  }
  EXPECT_LE(pool.fresh_allocations(), 4);
}

TEST(RecordReader, FuzzFunctionAcceptsDamagedFiles) {
  std::string good;
  for (int i = 0; i < 12; ++i) good += frame(std::string((i * 97) % 150, static_cast<char>('a' + i)));
  test::fuzz_record_reader("");
  test::fuzz_record_reader(good);
  test::Damage damage;
  for (int round = 0; round < 500; ++round) {
    std::string bytes = good;
    damage.flip_bits(bytes, round % 4);
    if (round % 3 == 0) damage.cut(bytes);
    test::fuzz_record_reader(bytes);
  }
}

}  // namespace
}  // namespace millrace::reader_test
