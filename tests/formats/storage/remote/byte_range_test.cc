#include "millrace/formats/storage/remote/byte_range.h"

#include <gtest/gtest.h>

namespace millrace::byte_range_test {
namespace {

TEST(ByteRange, IsWrittenWithItsLastByte) {
  EXPECT_EQ(range_field({.offset = 0, .size = 1}), "bytes=0-0");
  EXPECT_EQ(range_field({.offset = 100, .size = 65536}), "bytes=100-65635");
}

TEST(ByteRange, IsReadFromAnswers) {
  const auto whole = parse_content_range("bytes 100-199/1000");
  ASSERT_TRUE(whole && whole->range);
  EXPECT_EQ(whole->range->offset, 100U);
  EXPECT_EQ(whole->range->size, 100U);
  EXPECT_EQ(whole->object_size, 1000U);
  const auto unknown = parse_content_range("bytes 0-0/*");
  ASSERT_TRUE(unknown && unknown->range);
  EXPECT_EQ(unknown->range->size, 1U);
  EXPECT_FALSE(unknown->object_size);
  const auto beyond = parse_content_range("bytes */1000");
  ASSERT_TRUE(beyond);
  EXPECT_FALSE(beyond->range);
  EXPECT_EQ(beyond->object_size, 1000U);
}

TEST(ByteRange, WhatIsNoneIsNone) {
  for (const char* text : {"", "bytes", "bytes ", "bytes 1-0/10", "bytes 0-9", "bytes 0-9/", "bytes 0-9/x",
                           "bytes -1/10", "bytes 0-10/10", "items 0-9/10", "bytes 0-18446744073709551615/1",
                           "bytes 0-99999999999999999999/1", "bytes 0x0-1/10", "bytes 0-1/10 "}) {
    EXPECT_FALSE(parse_content_range(text)) << "'" << text << "'";
  }
}

TEST(ByteRange, CountsAreDigitsAlone) {
  EXPECT_EQ(parse_count("0"), 0U);
  EXPECT_EQ(parse_count("9223372036854775807"), uint64_t{INT64_MAX});
  for (const char* text : {"", " 1", "+1", "-1", "1 ", "9223372036854775808", "1e3", "0x1"}) {
    EXPECT_FALSE(parse_count(text)) << "'" << text << "'";
  }
}

}  // namespace
}  // namespace millrace::byte_range_test
