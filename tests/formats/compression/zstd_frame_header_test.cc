#include "millrace/formats/compression/zstd_frame_header.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "millrace/formats/compression/frame_table.h"
#include "millrace/formats/compression/zstd_format.h"

namespace millrace::zstd_frame_header_test {
namespace {

using namespace std::string_literals;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// Byte by byte, as a file comes; never more bytes are asked for than the header has.
size_t taken_of(std::string_view file) {
  size_t taken = 0;
  const auto needed = [&] { return ZstdFrameHeader::bytes_needed(bytes_of(file.substr(0, taken))); };
  while (taken < needed() && taken < file.size()) ++taken;
  return std::max(taken, needed());
}

ZstdFrameHeader header_of(std::string_view frame) {
  const size_t size = taken_of(frame);
  EXPECT_LE(size, ZstdFrameHeader::kMostBytes);
  EXPECT_LE(size, frame.size());
  return ZstdFrameHeader::parse(bytes_of(frame.substr(0, size)));
}

// The magic number and the frame header descriptor.
std::string begin(char descriptor) { return "\x28\xb5\x2f\xfd"s + descriptor; }

TEST(ZstdFrameHeader, HasAWindowWhereTheFrameIsNoSingleSegment) {
  const ZstdFrameHeader header = header_of(begin(0) + "\x00 data"s);
  EXPECT_FALSE(header.has_checksum);
  EXPECT_EQ(header.dictionary, 0U);
  EXPECT_EQ(header.window, 1024U);
  EXPECT_EQ(header.content, std::nullopt);
  // RFC 8878, 3.1.1.1.2: an exponent, and eighths.
  EXPECT_EQ(header_of(begin(0) + "\x6b"s).window, (uint64_t{8} << 20) / 8 * 11);
  EXPECT_EQ(header_of(begin(0) + "\xff"s).window, (uint64_t{1} << 41) / 8 * 15);
}

TEST(ZstdFrameHeader, SaysWhatTheFrameUnpacksTo) {
  EXPECT_EQ(header_of(begin(0x20) + "\x07 data"s).content, 7U);
  EXPECT_EQ(header_of(begin(0x20) + "\x07"s).window, 7U);
  // Two bytes begin where one ends.
  EXPECT_EQ(header_of(begin(0x60) + "\x01\x00"s).content, 257U);
  EXPECT_EQ(header_of(begin('\xa0') + "\x01\x00\x02\x00"s).content, 0x20001U);
  EXPECT_EQ(header_of(begin('\xe0') + "\x01\x00\x00\x00\x03\x00\x00\x00"s).content, 0x300000001U);
  const ZstdFrameHeader with_window = header_of(begin(0x40) + "\x00\x01\x00"s);
  EXPECT_EQ(with_window.window, 1024U);
  EXPECT_EQ(with_window.content, 257U);
}

TEST(ZstdFrameHeader, SaysWhichDictionaryAndWhetherThereIsAChecksum) {
  EXPECT_EQ(header_of(begin(0x21) + "\x05\x07"s).dictionary, 5U);
  EXPECT_EQ(header_of(begin(0x22) + "\x05\x01\x07"s).dictionary, 0x105U);
  const ZstdFrameHeader most = header_of(begin('\xc7') + "\x00\x05\x00\x00\x01\x01\x00\x00\x00\x03\x00\x00\x00"s);
  EXPECT_TRUE(most.has_checksum);
  EXPECT_EQ(most.dictionary, 0x1000005U);
  EXPECT_EQ(most.content, 0x300000001U);
  EXPECT_EQ(taken_of(begin('\xc7') + std::string(20, '\0')), ZstdFrameHeader::kMostBytes);
}

TEST(ZstdFrameHeader, OfASkippableFrameIsItsLengthAndTheMarkOfOurs) {
  EXPECT_EQ(taken_of("\x53\x2a\x4d\x18\x08\x00\x00\x00 content"s), kSkippableHeaderBytes);
  const std::string_view promise = frame_table_promise();
  EXPECT_EQ(promise.size(), kShardPromiseBytes);
  EXPECT_EQ(taken_of(std::string(promise) + "what follows"), kShardPromiseBytes);
  // The numbers of records are longer, and so no promise.
  EXPECT_EQ(taken_of("\x5b\x2a\x4d\x18\x09\x00\x00\x00 content"s), kSkippableHeaderBytes);
}

TEST(ZstdFrameHeader, OfWhatIsNoFrameIsItsMagicNumber) {
  EXPECT_EQ(taken_of("no frame"), 4U);
  EXPECT_EQ(taken_of("no"), 4U);
  EXPECT_EQ(taken_of(""), 4U);
}

}  // namespace
}  // namespace millrace::zstd_frame_header_test
