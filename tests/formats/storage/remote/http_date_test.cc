#include "millrace/formats/storage/remote/http_date.h"

#include <gtest/gtest.h>

namespace millrace::http_date_test {
namespace {

using std::chrono::sys_days;
using std::chrono::year;

TEST(HttpDate, IsReadInEachOfItsForms) {
  const auto time = sys_days(year(1994) / 11 / 6) + std::chrono::seconds(8 * 3600 + 49 * 60 + 37);
  for (const char* text :
       {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"}) {
    EXPECT_EQ(parse_http_date(text), time) << text;
  }
  EXPECT_EQ(parse_http_date("Thu, 01 Jan 1970 00:00:00 GMT"), sys_days(year(1970) / 1 / 1));
}

TEST(HttpDate, WhatIsNoneIsNone) {
  for (const char* text : {"", "soon", "Sun", "-1", "Sun, 06 Nov 1994 99:49:37 GMT"}) {
    EXPECT_FALSE(parse_http_date(text)) << "'" << text << "'";
  }
}

// The clock by which signatures are dated ends in 2262.
TEST(HttpDate, TimesThatNoClockHoldsAreNone) {
  EXPECT_TRUE(parse_http_date("Wed, 31 Dec 2200 23:59:59 GMT"));
  for (const char* text :
       {"Thu, 01 Jan 2201 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 01 Jan 1960 00:00:00 GMT"}) {
    EXPECT_FALSE(parse_http_date(text)) << text;
  }
}

}  // namespace
}  // namespace millrace::http_date_test
