#include "millrace/formats/compression/stream_header.h"

#include <cstdio>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <zlib.h>

namespace millrace::stream_header_test {
namespace {

using namespace std::string_literals;
using Step = StreamHeader::Step;

// A gzip header's ten bytes of fixed place.
std::string gzip(char flags) { return "\x1f\x8b\x08"s + flags + "\x01\x02\x03\x04\x02\x03"s; }

struct Taken {
  Step step;
  size_t num_taken;
};

// Up to the end of the header or a problem.
Taken take(StreamHeader& header, std::string_view bytes) {
  header.begin();
  for (size_t i = 0; i < bytes.size(); ++i) {
    const Step step = header.take(static_cast<uint8_t>(bytes[i]));
    if (step != Step::kMore) return {step, i + 1};
  }
  return {Step::kMore, bytes.size()};
}

void expect_done_at_the_end(const std::string& bytes, Compression compression) {
  StreamHeader header(compression);
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(take(header, bytes.substr(0, bytes.size() - 1)).step, Step::kMore);
    const Taken taken = take(header, bytes + "data");
    EXPECT_EQ(taken.step, Step::kDone) << header.problem();
    EXPECT_EQ(taken.num_taken, bytes.size());
  }
}

std::string problem(const std::string& bytes, Compression compression) {
  StreamHeader header(compression);
  EXPECT_EQ(take(header, bytes).step, Step::kNoHeader);
  return header.problem();
}

std::string with_crc(const std::string& bytes, int added = 0) {
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())) +
                   static_cast<unsigned>(added);
  return bytes + static_cast<char>(crc & 0xff) + static_cast<char>(crc >> 8 & 0xff);
}

TEST(StreamHeader, OfZlibHasTwoBytes) {
  for (const char* bytes : {"\x78\x01", "\x78\x9c", "\x78\xda", "\x08\x1d"}) {
    expect_done_at_the_end(bytes, Compression::kZlib);
  }
}

TEST(StreamHeader, OfGzipHasThePartsThatItsFlagsAnnounce) {
  const std::string extra = "\x03\x00\x00\xff\x00"s;
  const std::string name = "a name\0"s;
  const std::string comment = "a comment\0"s;
  for (int flags = 0; flags < 32; ++flags) {
    std::string bytes = gzip(static_cast<char>(flags));
    if ((flags & 4) != 0) bytes += extra;
    if ((flags & 8) != 0) bytes += name;
    if ((flags & 16) != 0) bytes += comment;
    if ((flags & 2) != 0) bytes = with_crc(bytes);
    expect_done_at_the_end(bytes, Compression::kGzip);
  }
  expect_done_at_the_end(gzip(4) + "\0\0"s, Compression::kGzip);
  expect_done_at_the_end(gzip(8 | 16) + "\0\0"s, Compression::kGzip);
}

TEST(StreamHeader, OfGzipIsDamagedWhereItsCrcIsWrong) {
  StreamHeader header(Compression::kGzip);
  const std::string bytes = with_crc(gzip(2 | 8) + "name\0"s, 1);
  const Taken taken = take(header, bytes + "data");
  EXPECT_EQ(taken.step, Step::kBadCrc);
  EXPECT_EQ(taken.num_taken, bytes.size());
  const auto crc = [&](size_t at) {
    return static_cast<unsigned>(static_cast<uint8_t>(bytes[at]) | static_cast<uint8_t>(bytes[at + 1]) << 8);
  };
  const unsigned found = crc(bytes.size() - 2);
  char text[64];
  std::snprintf(text, sizeof text, "has the CRC %04x, its field says %04x", found - 1, found);
  EXPECT_EQ(header.problem(), text);
  EXPECT_EQ(take(header, gzip(0)).step, Step::kDone);  // the next one is another
}

TEST(StreamHeader, SaysWhyBytesAreNone) {
  EXPECT_EQ(problem("\x20", Compression::kGzip), "it begins with 20, expected 1f 8b");
  EXPECT_EQ(problem("\x1f\x8c", Compression::kGzip), "it begins with 1f 8c, expected 1f 8b");
  EXPECT_EQ(problem("\x1f\x8b\x07", Compression::kGzip), "compression method 7, only 8 is defined");
  EXPECT_EQ(problem("\x1f\x8b\x08\x20", Compression::kGzip), "reserved flags are set in 20");
  EXPECT_EQ(problem("\x79", Compression::kZlib), "its first byte 79 names no deflate data with a window up to 32 KiB");
  EXPECT_EQ(problem("\x88", Compression::kZlib), "its first byte 88 names no deflate data with a window up to 32 KiB");
  EXPECT_EQ(problem("\x78\x02", Compression::kZlib), "the check bits of its header 78 02 are wrong");
  EXPECT_EQ(problem("\x78\x20", Compression::kZlib), "it needs a preset dictionary");
}

}  // namespace
}  // namespace millrace::stream_header_test
