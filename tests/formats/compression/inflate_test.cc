#include "millrace/formats/compression/inflate.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/compression/deflate.h"
#include "tests/fuzz/inflate_fuzz.h"
#include "tests/support/damage.h"
#include "tests/support/places.h"
#include "tests/support/process_locale.h"

namespace millrace::inflate_test {
namespace {

using ::testing::HasSubstr;

std::string fixture(const std::string& name) {
  std::ifstream in(test::data_path("tfrecord/") + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string text(size_t size) {
  std::string out;
  for (uint64_t i = 0; out.size() < size; ++i) out += std::to_string(i * 7919 % 10007);
  out.resize(size);
  return out;
}

std::string packed(Compression compression, std::string_view bytes, int level = 6) {
  Deflater deflater(compression, level);
  std::string out;
  deflater.write(bytes, out);
  deflater.finish(out);
  return out;
}

struct Unpacked {
  std::string bytes;
  Error error;
  bool good = true;
};

Unpacked unpack(std::string_view bytes, Compression compression, InflateEngine engine, size_t in, size_t out) {
  Inflater inflater(compression, engine);
  Unpacked unpacked;
  std::vector<std::byte> room(out);
  auto input = std::as_bytes(std::span(bytes));
  for (;;) {
    const auto piece = input.first(std::min(in, input.size()));
    const Inflater::Result result = inflater.run(piece, room);
    unpacked.bytes.append(reinterpret_cast<const char*>(room.data()), result.num_written);
    input = input.subspan(result.num_read);
    if (result.status == Inflater::Status::kError) break;
    if (result.status == Inflater::Status::kNeedInput && input.empty()) {
      if (inflater.finish()) return unpacked;
      break;
    }
  }
  unpacked.good = false;
  unpacked.error = inflater.error();
  return unpacked;
}

constexpr size_t kCuts[] = {1, 2, 3, 5, 7, 8, 9, 100, 1 << 20};

TEST(Inflater, UnpacksStreamsInEveryConcatenationHoweverTheBytesAreCut) {
  const std::string first = text(3000);
  const std::string second = text(70);
  for (const Compression compression : {Compression::kZlib, Compression::kGzip}) {
    const std::string empty = packed(compression, "");
    const std::string bytes = empty + packed(compression, first) + empty + empty + packed(compression, second, 0) +
                              packed(compression, "x") + packed(compression, first, 9) + empty;
    for (const InflateEngine engine : {InflateEngine::kFastest, InflateEngine::kZlib}) {
      for (const size_t in : kCuts) {
        for (const size_t out : kCuts) {
          const Unpacked unpacked = unpack(bytes, compression, engine, in, out);
          ASSERT_TRUE(unpacked.good) << in << " " << out << " " << unpacked.error.to_string();
          ASSERT_TRUE(unpacked.bytes == first + second + "x" + first) << in << " " << out;
        }
      }
    }
  }
}

TEST(Inflater, FileOfNoBytesIsAFileOfNoStreams) {
  EXPECT_TRUE(unpack("", Compression::kGzip, InflateEngine::kFastest, 1, 1).good);
  EXPECT_TRUE(unpack("", Compression::kZlib, InflateEngine::kFastest, 1, 1).good);
}

TEST(Inflater, FileCutAnywhereIsTruncatedAfterEverythingBeforeTheCut) {
  const std::string content = text(500);
  for (const Compression compression : {Compression::kZlib, Compression::kGzip}) {
    const std::string bytes = packed(compression, content);
    for (const InflateEngine engine : {InflateEngine::kFastest, InflateEngine::kZlib}) {
      for (size_t size = 1; size < bytes.size(); ++size) {
        const Unpacked unpacked = unpack(bytes.substr(0, size), compression, engine, 100, 100);
        ASSERT_FALSE(unpacked.good) << size;
        EXPECT_EQ(unpacked.error.code, ErrorCode::kTruncated) << size;
        EXPECT_TRUE(content.starts_with(unpacked.bytes));
        if (size >= bytes.size() - 3) {
          EXPECT_EQ(unpacked.bytes, content);
        }
      }
    }
  }
}

TEST(Inflater, WrongTrailerIsAnErrorAfterAllBytes) {
  const std::string content = text(500);
  const std::string gzip = packed(Compression::kGzip, content);
  const std::string zlib = packed(Compression::kZlib, content);
  for (const InflateEngine engine : {InflateEngine::kFastest, InflateEngine::kZlib}) {
    for (size_t back = 1; back <= 8; ++back) {
      std::string bytes = gzip;
      bytes[bytes.size() - back] ^= 1;
      const Unpacked unpacked = unpack(bytes, Compression::kGzip, engine, 100, 100);
      EXPECT_EQ(unpacked.bytes, content);
      ASSERT_FALSE(unpacked.good);
      EXPECT_EQ(unpacked.error.code, ErrorCode::kCompression);
      EXPECT_THAT(unpacked.error.message, HasSubstr(back <= 4 ? "has 500 bytes" : "checksum"));
    }
    for (size_t back = 1; back <= 4; ++back) {
      std::string bytes = zlib;
      bytes[bytes.size() - back] ^= 1;
      const Unpacked unpacked = unpack(bytes, Compression::kZlib, engine, 100, 100);
      EXPECT_EQ(unpacked.bytes, content);
      EXPECT_THAT(unpacked.error.message, HasSubstr("checksum"));
    }
  }
}

TEST(Inflater, WhatFollowsAStreamMustBeAnotherOne) {
  const std::string content = text(500);
  for (const Compression compression : {Compression::kZlib, Compression::kGzip}) {
    for (const std::string& tail : {std::string(1, '\0'), std::string("garbage!"), std::string(512, '\0')}) {
      const Unpacked unpacked = unpack(packed(compression, content) + tail, compression, InflateEngine::kFastest, 9, 9);
      EXPECT_EQ(unpacked.bytes, content);
      ASSERT_FALSE(unpacked.good);
      EXPECT_EQ(unpacked.error.code, ErrorCode::kCompression);
      EXPECT_THAT(unpacked.error.message, HasSubstr("no other one"));
      const size_t end = packed(compression, content).size();
      EXPECT_THAT(unpacked.error.message, HasSubstr("compressed byte " + std::to_string(end) + " "));
    }
  }
}

TEST(Inflater, HeadersThatMeanNothingAreRefused) {
  const std::string bytes = packed(Compression::kGzip, "content");
  for (const auto& [at, bit, what] : std::vector<std::tuple<size_t, int, std::string>>{
           {0, 1, "expected 1f 8b"}, {1, 1, "expected 1f 8b"}, {2, 1, "compression method 9"}, {3, 0x80, "reserved"}}) {
    std::string damaged = bytes;
    damaged[at] ^= static_cast<char>(bit);
    const Unpacked unpacked = unpack(damaged, Compression::kGzip, InflateEngine::kFastest, 100, 100);
    ASSERT_FALSE(unpacked.good);
    EXPECT_EQ(unpacked.bytes, "");
    EXPECT_THAT(unpacked.error.message, HasSubstr(what));
  }
  EXPECT_FALSE(unpack(bytes, Compression::kZlib, InflateEngine::kFastest, 100, 100).good);
  EXPECT_FALSE(unpack("\x78\xbb....", Compression::kZlib, InflateEngine::kFastest, 100, 100).good);
}

TEST(Inflater, CrcOfTheGzipHeaderIsChecked) {
  std::string bytes = fixture("gzip_optional_header_fields.tfrecord");
  EXPECT_TRUE(unpack(bytes, Compression::kGzip, InflateEngine::kFastest, 3, 100).good);
  bytes[4] ^= 1;  // the time
  const Unpacked unpacked = unpack(bytes, Compression::kGzip, InflateEngine::kFastest, 3, 100);
  ASSERT_FALSE(unpacked.good);
  EXPECT_THAT(unpacked.error.message, HasSubstr("gzip header"));
}

TEST(Inflater, ErrorStays) {
  Inflater inflater(Compression::kGzip);
  const std::string bytes = "no gzip";
  std::byte room[8];
  EXPECT_EQ(inflater.run(std::as_bytes(std::span(bytes)), room).status, Inflater::Status::kError);
  EXPECT_EQ(inflater.run(std::as_bytes(std::span(bytes)), room).status, Inflater::Status::kError);
  EXPECT_FALSE(inflater.finish());
}

TEST(Inflater, FuzzFunctionAcceptsDamagedStreams) {
  test::Damage damage;
  std::vector<std::string> seeds{fixture("corrupt/base.gzip.tfrecord"), fixture("corrupt/base.zlib.tfrecord"),
                                 fixture("corrupt/zlib_two_streams.tfrecord"),
                                 fixture("corrupt/gzip_first_member_checksum.tfrecord"), ""};
  for (const std::string& seed : seeds) {
    test::fuzz_inflater(seed);
    for (int round = 0; round < 300 && !seed.empty(); ++round) {
      std::string bytes = seed;
      damage.flip_bits(bytes, 1 + round % 3);
      if (round % 5 == 0) damage.cut(bytes);
      test::fuzz_inflater(bytes);
    }
  }
}

TEST(Inflater, FuzzFunctionAcceptsWhatOnceBrokeIt) {
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_path("tests/fuzz/corpus/inflater"))) {
    std::ifstream in(entry.path(), std::ios::binary);
    test::fuzz_inflater(std::string(std::istreambuf_iterator<char>(in), {}));
    ++num_files;
  }
  EXPECT_GE(num_files, 2);
}

TEST(Inflater, MatchWithoutHistoryGivesOnlyTheBytesBeforeIt) {
  std::ifstream in(test::source_path("tests/fuzz/corpus/inflater/match_without_history.bin"), std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  for (const size_t room : {1, 2, 3, 9, 1000}) {
    const Unpacked unpacked = unpack(bytes, Compression::kGzip, InflateEngine::kFastest, 1000, room);
    EXPECT_FALSE(unpacked.good);
    EXPECT_EQ(unpacked.bytes, std::string("d\0", 2)) << room;
  }
}

TEST(CompressionGuess, KnowsMagicBytes) {
  EXPECT_EQ(guess_compression("\x1f\x8b\x08").compression, Compression::kGzip);
  EXPECT_EQ(guess_compression(packed(Compression::kZlib, "x")).compression, Compression::kZlib);
  EXPECT_EQ(guess_compression("text").compression, Compression::kNone);
  EXPECT_EQ(guess_compression("").compression, Compression::kNone);
  EXPECT_EQ(guess_compression("\x28\xb5\x2f\xfd....").compression, Compression::kZstd);
  EXPECT_EQ(guess_compression("\x50\x2a\x4d\x18....").compression, Compression::kZstd);
  EXPECT_EQ(guess_compression("\x5f\x2a\x4d\x18....").description, "zstd");
  EXPECT_EQ(guess_compression("\x60\x2a\x4d\x18....").compression, Compression::kNone);
  EXPECT_EQ(guess_compression("BZh9....").compression, std::nullopt);
  EXPECT_EQ(guess_compression("BZh9....").description, "bzip2");
  EXPECT_EQ(guess_compression(std::string_view("\xff\x06\0\0sNaPpY\0\0", 12)).compression, std::nullopt);
  EXPECT_EQ(guess_compression(std::string_view("\xff\x06\0\0sNaPpY\0\0", 12)).description, "snappy");
  EXPECT_EQ(compression_from_name("GZIP"), Compression::kGzip);
  EXPECT_EQ(compression_from_name(""), Compression::kNone);
  EXPECT_EQ(compression_from_name("zstd"), Compression::kZstd);
  EXPECT_EQ(compression_from_name(to_string(Compression::kZstd)), Compression::kZstd);
  EXPECT_EQ(compression_from_name("lz4"), std::nullopt);
}

TEST(Compression, HasTheSameNamesInEveryLocale) {
  const test::ProcessLocale turkish("tr_TR");  // where I is the capital of \u0131
  for (const Compression compression :
       {Compression::kNone, Compression::kZlib, Compression::kGzip, Compression::kZstd}) {
    EXPECT_EQ(compression_from_name(to_string(compression)), compression);
  }
}

}  // namespace
}  // namespace millrace::inflate_test
