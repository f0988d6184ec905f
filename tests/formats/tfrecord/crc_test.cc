#include "millrace/formats/tfrecord/crc.h"

#include <string>

#include <gtest/gtest.h>

namespace millrace::crc_test {
namespace {

std::string patterned(size_t size) {
  std::string bytes(size, '\0');
  uint32_t state = 12345;
  for (char& c : bytes) {
    state = state * 1664525 + 1013904223;
    c = static_cast<char>(state >> 24);
  }
  return bytes;
}

TEST(Crc32c, GivesThePublishedValues) {
  // RFC 3720, appendix B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  std::string ascending(32, '\0');
  for (int i = 0; i < 32; ++i) ascending[i] = static_cast<char>(i);
  EXPECT_EQ(crc32c(ascending), 0x46dd794eU);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(Crc32c, PortableFormGivesThePublishedValue) { EXPECT_EQ(crc32c_portable("123456789"), 0xe3069283U); }

TEST(Crc32c, EveryLengthAndAlignmentAgreesWithThePortableForm) {
  const std::string bytes = patterned(5000);
  for (size_t begin = 0; begin < 9; ++begin) {
    // ISA-L works in other steps from 256 and 512 bytes on; what is left behind them is joined to its CRC.
    for (size_t size = 0; size < 800; ++size) {
      const std::string_view part = std::string_view(bytes).substr(begin, size);
      ASSERT_EQ(crc32c(part), crc32c_portable(part)) << begin << " " << size;
      ASSERT_EQ(crc32c(part, 0x12345678), crc32c_portable(part, 0x12345678)) << begin << " " << size;
    }
    const std::string_view rest = std::string_view(bytes).substr(begin);
    EXPECT_EQ(crc32c(rest), crc32c_portable(rest));
  }
}

TEST(Crc32c, GoesOnBehindBytesWhoseCrcIsKnown) {
  std::string bytes(5000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i + 7 * i);
  const std::string_view all = bytes;
  for (const size_t first : {size_t{0}, size_t{1}, size_t{7}, size_t{199}, size_t{2500}, size_t{4999}, all.size()}) {
    EXPECT_EQ(crc32c(all.substr(first), crc32c(all.substr(0, first))), crc32c(all)) << first;
    EXPECT_EQ(crc32c_portable(all.substr(first), crc32c(all.substr(0, first))), crc32c(all)) << first;
  }
}

TEST(Crc32c, MaskIsARotationPlusAConstant) {
  EXPECT_EQ(mask_crc(0), 0xa282ead8U);
  EXPECT_EQ(mask_crc(0x00008000U), 0xa282ead9U);
  EXPECT_EQ(mask_crc(1), 0x00020000U + 0xa282ead8U);
}

TEST(Crc32c, LengthIsCheckedAsItsEightLittleEndianBytes) {
  for (const uint64_t length : {uint64_t{0}, uint64_t{1}, uint64_t{100}, uint64_t{1} << 33, ~uint64_t{0}}) {
    std::string bytes(8, '\0');
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
    EXPECT_EQ(masked_crc32c_of_length(length), mask_crc(crc32c_portable(bytes))) << length;
  }
}

}  // namespace
}  // namespace millrace::crc_test
