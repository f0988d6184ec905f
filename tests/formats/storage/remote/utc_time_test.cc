#include "millrace/formats/storage/remote/utc_time.h"

#include <gtest/gtest.h>

namespace millrace::utc_time_test {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using std::chrono::sys_days;
using std::chrono::year;

TEST(UtcTime, IsRead) {
  const auto day = sys_days(year(2026) / 11 / 28);
  EXPECT_EQ(parse_utc_time("2026-11-28T13:05:09Z"), day + hours(13) + minutes(5) + seconds(9));
  EXPECT_EQ(parse_utc_time("2026-11-28t13:05:09.123456789z"), day + hours(13) + minutes(5) + seconds(9));
  EXPECT_EQ(parse_utc_time("2026-11-28 00:00:00-0030"), day + minutes(30));
  EXPECT_EQ(parse_utc_time("1970-01-01T00:00:00+00:00"), std::chrono::system_clock::time_point());
  EXPECT_EQ(parse_utc_time("9999-12-31T23:59:59Z"),
            sys_days(year(2200) / 12 / 31) + hours(23) + minutes(59) + seconds(59));
  for (const char* text :
       {"", "2026-11-28", "2026-11-28T13:05:09", "2026-11-28T13:05Z", "2026-13-28T13:05:09Z", "2026-02-29T13:05:09Z",
        "2026-11-28T24:05:09Z", "2026-11-28T13:60:09Z", "2026-11-28T13:05:61Z", "2026-11-28T13:05:09.Z",
        "2026-11-28T13:05:09Z ", "2026-11-28T13:05:-9Z", "1969-12-31T23:59:59Z", "2026-11-28T13:05:09+1",
        " 026-11-28T13:05:09Z"}) {
    EXPECT_EQ(parse_utc_time(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace millrace::utc_time_test
