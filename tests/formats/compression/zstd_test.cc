// What we write as zstd, and what we read: ours, the zstd program's, and what only a forger writes.
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include "millrace/formats/compression/compression.h"
#include "millrace/formats/compression/frame_table.h"
#include "millrace/formats/compression/zstd_packer.h"
#include "millrace/formats/compression/zstd_unpacker.h"
#include "tests/fuzz/frame_table_fuzz.h"
#include "tests/fuzz/zstd_unpacker_fuzz.h"
#include "tests/support/damage.h"
#include "tests/support/sanitized.h"

namespace millrace::zstd_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string text(size_t size, uint64_t seed = 1) {
  std::string out;
  for (uint64_t i = seed; out.size() < size; ++i) out += std::to_string(i * 7919 % 10007);
  out.resize(size);
  return out;
}

std::string packed(const std::vector<std::string>& records, size_t frame_bytes, int level = 3) {
  ZstdPacker packer(level, frame_bytes);
  std::string out;
  for (const std::string& record : records) {
    packer.begin_record(record.size(), out);
    packer.write(std::string_view(record).substr(0, record.size() / 2), out);
    packer.write(std::string_view(record).substr(record.size() / 2), out);
  }
  packer.finish(out);
  return out;
}

std::string joined(const std::vector<std::string>& records) {
  std::string all;
  for (const std::string& record : records) all += record;
  return all;
}

// One frame as zstd's own functions write it.
struct ForeignFrame {
  bool checksum = true;
  bool content_size = true;
  int level = 3;
  int window_log = 0;
};
std::string frame(const std::string& bytes, const ForeignFrame& form = {}) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, form.level);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, form.checksum ? 1 : 0);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, form.content_size ? 1 : 0);
  if (form.window_log > 0) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, form.window_log);
  std::string out(ZSTD_compressBound(bytes.size()) + 100, '\0');
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  ZSTD_inBuffer from{bytes.data(), bytes.size(), 0};
  // In two steps where the size is not to be known.
  if (!form.content_size) ZSTD_compressStream2(context, &to, &from, ZSTD_e_continue);
  EXPECT_EQ(ZSTD_compressStream2(context, &to, &from, ZSTD_e_end), 0U);
  ZSTD_freeCCtx(context);
  out.resize(to.pos);
  return out;
}

std::string skippable(const std::string& content, char digit = '\x50') {
  std::string out{digit, '\x2a', '\x4d', '\x18'};
  const auto size = static_cast<uint32_t>(content.size());
  out.append(reinterpret_cast<const char*>(&size), sizeof(size));
  return out + content;
}

struct Unpacked {
  std::string bytes;
  Error error;
  bool good = true;
};

Unpacked unpack(ZstdUnpacker unpacker, std::string_view bytes, size_t in = 1 << 20, size_t out = 1 << 20) {
  Unpacked unpacked;
  std::vector<std::byte> room(out);
  auto input = std::as_bytes(std::span(bytes));
  for (;;) {
    const auto piece = input.first(std::min(in, input.size()));
    const UnpackResult result = unpacker.run(piece, room);
    unpacked.bytes.append(reinterpret_cast<const char*>(room.data()), result.num_written);
    input = input.subspan(result.num_read);
    if (result.status == UnpackResult::Status::kError) break;
    if (result.status == UnpackResult::Status::kNeedInput && input.empty()) {
      if (unpacker.finish()) return unpacked;
      break;
    }
  }
  unpacked.good = false;
  unpacked.error = unpacker.error();
  return unpacked;
}

FrameTable table_of(const std::string& file) { return FrameTable::parse(file, file.size()); }

const std::vector<std::string>& records() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> made;
    for (size_t i = 0; i < 60; ++i) made.push_back(text(i % 9 * 40, i));
    made[20] = text(5000);
    made[40] = text(1000);
    return made;
  }();
  return all;
}

constexpr size_t kCuts[] = {1, 2, 3, 5, 7, 17, 18, 19, 100, 1 << 20};

TEST(Zstd, FramesEndBetweenRecordsAndALongRecordIsAFrameOfItsOwn) {
  const std::string file = packed(records(), 1000);
  EXPECT_EQ(guess_compression(file).compression, Compression::kZstd);
  const FrameTable table = table_of(file);
  EXPECT_EQ(table.num_bytes(), joined(records()).size());
  EXPECT_EQ(table.num_records(), records().size());
  size_t record = 0;
  uint64_t offset = 0;
  for (const FrameTable::Frame& one : table.frames()) {
    const uint64_t bytes = (&one)[1].offset - one.offset;
    EXPECT_EQ(one.offset, offset);
    EXPECT_EQ(one.record, record);
    EXPECT_TRUE(FrameTable::begins_a_record(one));
    const uint64_t count = (&one)[1].record - one.record;
    EXPECT_TRUE(bytes <= 1000 || (count == 1 && record == 20)) << record;
    for (uint64_t i = 0; i < count; ++i) offset += records()[record++].size();
    EXPECT_EQ(offset, one.offset + bytes);
    // The next record had no room.
    if (record < records().size()) {
      EXPECT_GT(bytes + records()[record].size(), 1000U);
    }
  }
  EXPECT_EQ(record, records().size());
  EXPECT_EQ(packed(records(), 1000), file);  // the same bytes again
}

TEST(Zstd, ReadsItsFileHoweverTheBytesAreCutAndSoDoesTheLibrary) {
  const std::string all = joined(records());
  for (const size_t frame_bytes : {1, 100, 1000, 1 << 20}) {
    const std::string file = packed(records(), frame_bytes);
    std::string by_the_library(all.size(), '\0');
    EXPECT_EQ(ZSTD_decompress(by_the_library.data(), all.size(), file.data(), file.size()), all.size());
    EXPECT_EQ(by_the_library, all);
    for (const size_t in : kCuts) {
      for (const size_t out : kCuts) {
        for (const bool with_table : {false, true}) {
          const auto table = with_table ? std::make_shared<const FrameTable>(table_of(file)) : nullptr;
          const Unpacked unpacked = unpack(ZstdUnpacker(table), file, in, out);
          ASSERT_TRUE(unpacked.good) << in << " " << out << " " << unpacked.error.to_string();
          ASSERT_EQ(unpacked.bytes, all);
        }
      }
    }
  }
}

TEST(Zstd, IsEnteredAtEveryFrame) {
  const std::string file = packed(records(), 700);
  const auto table = std::make_shared<const FrameTable>(table_of(file));
  const std::string all = joined(records());
  ZstdFrameUnpacker whole;
  ASSERT_GT(table->frames().size(), 10U);
  for (const FrameTable::Frame& one : table->frames()) {
    const Unpacked rest =
        unpack(ZstdUnpacker(FrameTable::point(one), table), std::string_view(file).substr(one.begin), 100, 77);
    EXPECT_TRUE(rest.good) << rest.error.to_string();
    EXPECT_EQ(rest.bytes, all.substr(one.offset));
    const FrameTable::Frame& next = (&one)[1];
    std::string bytes(next.offset - one.offset, '\0');
    const auto packed_bytes = std::as_bytes(std::span(file)).subspan(one.begin, next.begin - one.begin);
    EXPECT_EQ(whole.unpack(packed_bytes, one.begin, std::as_writable_bytes(std::span(bytes))), std::nullopt);
    EXPECT_EQ(bytes, all.substr(one.offset, bytes.size()));
    bytes.resize(bytes.size() + 1);
    EXPECT_THAT(whole.unpack(packed_bytes, one.begin, std::as_writable_bytes(std::span(bytes)))->message,
                HasSubstr("expected " + std::to_string(bytes.size())));
  }
  EXPECT_THROW(ZstdUnpacker({.bit = 81, .offset = 5, .stream_begin = 0}), ErrorException);
}

TEST(Zstd, OfTheProgramOfManyFramesWithAnythingBetweenThemIsRead) {
  const std::string first = text(3000);
  const std::string long_one = text(3 << 20);
  const std::string file = skippable("") + frame(first, {.content_size = false}) + frame("") +
                           skippable(text(500), '\x5f') + frame("x", {.checksum = false}) +
                           frame("", {.checksum = false}) +
                           frame(long_one, {.checksum = false, .content_size = false}) +
                           frame(long_one, {.level = 19}) + frame(long_one, {.content_size = false}) + skippable("end");
  for (const size_t in : {size_t{1} << 20, size_t{3}, size_t{999}}) {
    for (const size_t out : {size_t{1} << 23, size_t{777}}) {
      const Unpacked unpacked = unpack(ZstdUnpacker(), file, in, out);
      ASSERT_TRUE(unpacked.good) << unpacked.error.to_string();
      ASSERT_TRUE(unpacked.bytes == first + "x" + long_one + long_one + long_one) << in << " " << out;
    }
  }
  EXPECT_TRUE(unpack(ZstdUnpacker(), "").good);
}

TEST(Zstd, SeekPointsAreTheFramesThatUnpackToSomething) {
  const std::string file =
      frame("") + skippable("a") + frame("one") + frame("") + frame(text(2 << 20)) + frame("three");
  ZstdUnpacker unpacker;
  unpacker.find_seek_points();
  std::vector<std::byte> room(5 << 20);
  EXPECT_EQ(unpacker.run(std::as_bytes(std::span(file)), room).status, UnpackResult::Status::kNeedInput);
  const std::vector<SeekPoint> points = unpacker.take_seek_points();
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].offset, 3U);
  EXPECT_EQ(points[1].offset, 3U + (2 << 20));
  for (const SeekPoint& point : points) {
    EXPECT_TRUE(point.between_streams());
    EXPECT_TRUE(unpack(ZstdUnpacker(point), std::string_view(file).substr(point.bit / 8)).good);
  }
}

TEST(Zstd, NothingOfADamagedFrameIsGiven) {
  const std::string file = packed(records(), 1000);
  const std::string all = joined(records());
  const FrameTable table = table_of(file);
  const auto frames = std::make_shared<const FrameTable>(table);
  int num_unseen = 0;
  for (size_t bit = 0; bit < 8 * file.size(); bit += test::kStride) {
    std::string damaged = file;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    for (const bool with_table : {false, true}) {
      const Unpacked unpacked =
          unpack(ZstdUnpacker(with_table ? frames : nullptr), damaged, bit % 3 == 0 ? 50 : 1 << 20, 400);
      ASSERT_EQ(unpacked.bytes, all.substr(0, unpacked.bytes.size())) << "bit " << bit;
      if (unpacked.good) {
        // In what is passed (the mark, the numbers of records, the seek table), or in a bit that means nothing.
        ASSERT_EQ(unpacked.bytes, all);
        num_unseen += bit / 8 < 16 || bit / 8 >= table.end_of_frames() ? 0 : 1;
        continue;
      }
      ASSERT_TRUE(unpacked.error.code == ErrorCode::kCompression || unpacked.error.code == ErrorCode::kTruncated);
      // Whole frames come, and then none.
      bool is_between = unpacked.bytes.size() == all.size();
      for (const FrameTable::Frame& one : table.frames()) is_between |= one.offset == unpacked.bytes.size();
      EXPECT_TRUE(is_between) << "bit " << bit << ": " << unpacked.bytes.size();
    }
  }
  EXPECT_LT(num_unseen, static_cast<int>(2 * 8 * file.size() / 100));
}

TEST(Zstd, AFileThatIsCutAnywhereIsTruncated) {
  const std::string file = packed(records(), 1000);
  const FrameTable table = table_of(file);
  std::vector<uint64_t> between{16};
  for (const FrameTable::Frame& one : table.frames()) between.push_back((&one)[1].begin);
  for (size_t size = 1; size < file.size(); size += test::kStride) {
    const Unpacked unpacked = unpack(ZstdUnpacker(), file.substr(0, size));
    ASSERT_FALSE(unpacked.good) << size;
    EXPECT_EQ(unpacked.error.code, ErrorCode::kTruncated) << size;
    EXPECT_THAT(unpacked.error.message, HasSubstr("the file ends after " + std::to_string(size) + " compressed bytes"));
    if (std::find(between.begin(), between.end(), size) != between.end()) {
      EXPECT_THAT(unpacked.error.message, HasSubstr("without the seek table that its beginning promises"));
    }
  }
}

TEST(Zstd, ErrorsSayWhatAndWhere) {
  const auto message = [](const std::string& bytes) { return unpack(ZstdUnpacker(), bytes).error.message; };
  EXPECT_THAT(message("plain text"), HasSubstr("not a zstd file: it begins with 69616c70, expected fd2fb528"));
  const std::string one = frame("abc");
  EXPECT_THAT(message(one + "abcd"), HasSubstr("what follows at compressed byte " + std::to_string(one.size()) +
                                               " is no zstd frame: it begins with 64636261"));
  std::string other = one + one;
  other.back() = static_cast<char>(other.back() ^ 1);
  EXPECT_THAT(message(other), HasSubstr("the zstd frame at compressed byte " + std::to_string(one.size()) +
                                        " has another checksum than the one after it"));
  EXPECT_THAT(message(frame(text(100)).substr(0, 30)), HasSubstr("inside the zstd frame that begins at byte 0"));
}

TEST(Zstd, WhatAHeaderSaysTakesNoMemory) {
  // A window of 2^41 bytes, and one of 16 MiB as `--long=24` has it.
  EXPECT_THAT(unpack(ZstdUnpacker(), std::string("\x28\xb5\x2f\xfd\x00\xf8", 6) + text(100)).error.message,
              HasSubstr("needs a window of 2199023255552 bytes, 8388608 are read at most"));
  const std::string large(20 << 20, 'x');
  EXPECT_THAT(unpack(ZstdUnpacker(), frame(large, {.content_size = false, .window_log = 24})).error.message,
              HasSubstr("needs a window of 16777216 bytes"));
  EXPECT_TRUE(unpack(ZstdUnpacker(), frame(large, {.level = 19})).bytes == large);
  // Content of 2^60 bytes, in one segment and with a window.
  const std::string size("\0\0\0\0\0\0\0\x10", 8);
  const std::string block("\x19\0\0abc", 6);  // the last one, stored, 3 bytes
  EXPECT_THAT(unpack(ZstdUnpacker(), std::string("\x28\xb5\x2f\xfd\xe4", 5) + size + block).error.message,
              HasSubstr("needs a window of 1152921504606846976 bytes"));
  EXPECT_FALSE(unpack(ZstdUnpacker(), std::string("\x28\xb5\x2f\xfd\xc0\x00", 6) + size + block).good);
  // A mebibyte that is not there, or more than was said.
  const std::string said("\0\0\x10\0", 4);
  EXPECT_FALSE(unpack(ZstdUnpacker(), std::string("\x28\xb5\x2f\xfd\xa4", 5) + said + block + "1234").good);
  EXPECT_FALSE(unpack(ZstdUnpacker(), std::string("\x28\xb5\x2f\xfd\x24\x02", 6) + block + "1234", 5).good);
  EXPECT_THAT(unpack(ZstdUnpacker(), std::string("\x28\xb5\x2f\xfd\x21\x07\x03", 7) + block).error.message,
              HasSubstr("needs the dictionary 7"));
}

// --- the seek table
// ---------------------------------------------------------------------------------------------------

std::string number(uint32_t value) { return {reinterpret_cast<const char*>(&value), sizeof(value)}; }

// A table as other writers of the seekable format have it.
std::string foreign_table(const std::vector<std::pair<uint32_t, uint32_t>>& entries, bool checksums) {
  std::string content;
  for (const auto& [packed_bytes, bytes] : entries) {
    content += number(packed_bytes) + number(bytes) + (checksums ? number(7) : "");
  }
  content += number(static_cast<uint32_t>(entries.size())) + (checksums ? '\x80' : '\0') + number(0x8f92eab1);
  return skippable(content, '\x5e');
}

TEST(FrameTableTest, OfOtherWritersSaysWhereTheFramesAre) {
  const std::string one = frame("one");
  const std::string two = frame(text(2000));
  for (const bool checksums : {false, true}) {
    const std::string file =
        one + skippable("between") + two + foreign_table({{one.size(), 3}, {15, 0}, {two.size(), 2000}}, checksums);
    EXPECT_EQ(FrameTable::bytes_needed(std::string_view(file).substr(file.size() - 9), 1 << 20),
              8 + 3 * (checksums ? 12 : 8) + 9 + 8 + 8 + 12 + 8);
    const FrameTable table = table_of(file);
    ASSERT_EQ(table.frames().size(), 2U);
    EXPECT_EQ(table.frames()[0].begin, 0U);
    EXPECT_EQ(table.frames()[1].begin, one.size() + 15);
    EXPECT_EQ(table.frames()[1].offset, 3U);
    EXPECT_EQ(table.num_bytes(), 2003U);
    EXPECT_EQ(table.num_records(), std::nullopt);
    EXPECT_EQ(table.end_of_frames(), one.size() + 15 + two.size());
    EXPECT_EQ(&table.frame_with(2), &table.frames()[0]);
    EXPECT_EQ(&table.frame_with(3), &table.frames()[1]);
    EXPECT_EQ(table.frame_at(one.size()), nullptr);
    EXPECT_EQ(table.frames_from(1).size(), 1U);
    EXPECT_TRUE(unpack(ZstdUnpacker(std::make_shared<const FrameTable>(table)), file).good);
  }
}

TEST(FrameTableTest, FramesThatAreElsewhereThanItSaysAreAnError) {
  const std::string one = frame("one");
  const std::string two = frame("two!");
  const auto unpack_with = [&](const std::string& table) {
    const std::string file = one + two + table;
    return unpack(ZstdUnpacker(std::make_shared<const FrameTable>(table_of(file))), file);
  };
  EXPECT_THAT(unpack_with(foreign_table({{one.size(), 4}, {two.size(), 4}}, false)).error.message,
              HasSubstr("begins at unpacked byte 4, what lies before it has 3"));
  const Unpacked shifted = unpack_with(foreign_table({{one.size() - 1, 3}, {two.size() + 1, 4}}, false));
  EXPECT_THAT(shifted.error.message, HasSubstr("the seek table knows no frame at compressed byte"));
  EXPECT_EQ(shifted.bytes, "one");
}

TEST(FrameTableTest, ThatCannotBeRightIsRefused) {
  const std::string one = frame("one");
  const auto refusal = [](const std::string& file, uint64_t file_bytes) -> std::string {
    try {
      (void)FrameTable::parse(file, file_bytes);
    } catch (const ErrorException& exception) {
      EXPECT_EQ(exception.error().code, ErrorCode::kIndex);
      return exception.error().message;
    }
    return "none";
  };
  const std::string good = one + foreign_table({{one.size(), 3}}, false);
  EXPECT_EQ(refusal(good, good.size()), "none");
  EXPECT_THAT(refusal(good, good.size() + 1), HasSubstr("its 1 frames and itself have"));
  const std::string wrong = one + foreign_table({{one.size() + 1, 3}}, false);
  EXPECT_THAT(refusal(wrong, wrong.size()), HasSubstr("bytes together, the file"));
  EXPECT_THAT(refusal("nothing of the kind", 19), HasSubstr("does not end like one with a seek table"));
  // Numbers of frames that nobody wrote.
  for (const uint32_t count : {2U, 1000U, 0x7ffffffU, 0xffffffffU}) {
    std::string forged = good;
    forged.replace(forged.size() - 9, 4, number(count));
    EXPECT_THAT(refusal(forged, forged.size()), HasSubstr("the seek table is broken")) << count;
    EXPECT_THAT(refusal(forged, uint64_t{1} << 50), HasSubstr("the seek table is broken")) << count;
  }
  EXPECT_EQ(FrameTable::bytes_needed("too short", 100), std::nullopt);
}

TEST(FrameTableTest, OfOursIsRefusedWithAnyBitFlipped) {
  const std::string file = packed(records(), 1000);
  const size_t begin = table_of(file).end_of_frames();
  for (size_t bit = 8 * begin; bit < 8 * file.size(); bit += test::kStride) {
    std::string damaged = file;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THROW((void)table_of(damaged), ErrorException) << bit - 8 * begin;
  }
}

TEST(ZstdPacker, RefusesWhatMeansNothing) {
  EXPECT_THROW(ZstdPacker(0), ErrorException);
  EXPECT_THROW(ZstdPacker(20), ErrorException);
  EXPECT_THROW(ZstdPacker(3, 0), ErrorException);
  const std::string empty = packed({}, 1000);
  EXPECT_TRUE(unpack(ZstdUnpacker(), empty).good);
  EXPECT_EQ(table_of(empty).num_records(), 0U);
  EXPECT_TRUE(table_of(empty).frames().empty());
}

TEST(ZstdPacker, ALevelOfItsOwnPacksBetter) {
  std::string words;
  for (uint64_t i = 0, state = 1; i < 30000; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    words += "word" + std::to_string((state >> 40) % (1 + (state >> 20) % 3000)) + " of ";
  }
  EXPECT_LT(packed({words}, 1 << 20, 19).size(), packed({words}, 1 << 20, 1).size() * 9 / 10);
}

TEST(ZstdUnpackerFuzz, TakesDamagedFiles) {
  test::Damage damage;
  const std::string good[] = {packed(records(), 1000), packed(records(), 1 << 20),
                              frame(text(4000), {.checksum = false}) + skippable("ab") + frame(text(70)),
                              frame(text(2 << 20), {.content_size = false})};
  for (const std::string& file : good) {
    test::fuzz_zstd_unpacker(file);
    test::fuzz_frame_table(file);
    for (int i = 0; i < 60; ++i) {
      std::string damaged = file;
      damage.flip_bits(damaged, 1 + i % 4);
      test::fuzz_zstd_unpacker(damaged);
      test::fuzz_frame_table(damaged);
      damage.cut(damaged);
      test::fuzz_zstd_unpacker(damaged);
      test::fuzz_frame_table(damaged);
    }
  }
}

}  // namespace
}  // namespace millrace::zstd_test
