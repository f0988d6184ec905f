#include "benchmarks/live_display.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::live_display_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

DisplayedRun run() {
  const StageReport before = {.name = "0:read", .copies = 2, .busy_seconds = 1, .waiting_for_input_seconds = 1};
  StageReport now = before;
  now.busy_seconds = 2;
  now.waiting_for_input_seconds = 1.5;
  now.queue = 3;
  now.queue_slots = 4;
  const StageReport map = {.name = "1:parse", .parallel = true, .busy_seconds = 4, .queue_slots = 12};
  StageReport map_before = map;
  map_before.busy_seconds = 2;
  return {
      .heading = "mlm: 1.0 of 5.0 s",
      .before = {.seconds = 1, .records = 1000, .bytes = 1'000'000, .cpu_seconds = 1, .stages = {before, map_before}},
      .now = {.seconds = 2,
              .records = 2'001'000,
              .bytes = 3'500'000,
              .cpu_seconds = 4,
              .rss_mb = 123,
              .stages = {now, map}},
      .wall_seconds = 3,
      .threads = 4,
      .unicode = false};
}

size_t columns(const std::string& line) {
  return static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

TEST(LiveDisplay, ShowsRatesBarsAndQueuesSinceTheLastPicture) {
  const std::vector<std::string> lines = run().lines(120);
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(lines[0], "mlm: 1.0 of 5.0 s");
  EXPECT_THAT(lines[1], HasSubstr("2,000,000 records/s"));
  EXPECT_THAT(lines[1], HasSubstr(" 2.5 MB/s"));
  EXPECT_THAT(lines[1], HasSubstr(" 300% CPU"));
  EXPECT_THAT(lines[1], HasSubstr(" 123 MB memory"));
  // One of two lanes' seconds was busy, a quarter waited; half of four workers were in the map.
  EXPECT_EQ(lines[3], "  0:read x2  ############............  50%  ######..................  25%    3/4  ");
  EXPECT_EQ(lines[4], "  1:parse    ############............  50%  ........................   0%    0/12 ");
  EXPECT_THAT(lines[5], StartsWith("  limited by "));
}

TEST(LiveDisplay, IsNeverWiderThanTheTerminal) {
  DisplayedRun shown = run();
  for (const bool unicode : {false, true}) {
    shown.unicode = unicode;
    for (size_t width = 1; width < 200; ++width) {
      for (const std::string& line : shown.lines(width)) ASSERT_LE(columns(line), width) << line;
    }
  }
  EXPECT_THAT(shown.lines(200)[3], HasSubstr("████████████ "));
}

}  // namespace
}  // namespace millrace::live_display_test
