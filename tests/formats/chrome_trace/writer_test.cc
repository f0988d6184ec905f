#include "millrace/formats/chrome_trace/writer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace millrace::chrome_trace_writer_test {
namespace {

using nlohmann::ordered_json;

TEST(ChromeTraceWriter, WritesEachKindOfEventAsTheFormatSaysWithAnyName) {
  ChromeTraceWriter writer;
  writer.process_name("a \"quoted\" \\ name\n");
  writer.row_name(7, "thread 7");
  writer.span(7, "forward", 1500, 2'000'001);
  writer.counter(7, "queue", 250, "blocks", -3);
  writer.note("dropped events", "count", 12);
  writer.end();
  const auto events = ordered_json::parse(writer.take());
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[0], ordered_json::parse(R"({"name": "process_name", "ph": "M", "pid": 1, "tid": 0,
                                               "args": {"name": "a \"quoted\" \\ name\n"}})"));
  EXPECT_EQ(events[1].dump(), R"({"name":"thread_name","ph":"M","pid":1,"tid":7,"args":{"name":"thread 7"}})");
  EXPECT_EQ(events[2].dump(), R"({"name":"forward","ph":"X","pid":1,"tid":7,"ts":1.5,"dur":2000.001})");
  EXPECT_EQ(events[3].dump(), R"({"name":"queue","ph":"C","pid":1,"tid":7,"ts":0.25,"args":{"blocks":-3}})");
  EXPECT_EQ(events[4].dump(),
            R"({"name":"dropped events","ph":"i","s":"g","pid":1,"tid":0,"ts":0,"args":{"count":12}})");
}

TEST(ChromeTraceWriter, WhatIsTakenBitByBitIsOneArrayWithOrWithoutItsEnd) {
  ChromeTraceWriter writer;
  std::string file;
  for (int i = 0; i < 3; ++i) {
    writer.span(1, "step", i, 1);
    file += writer.take();
    EXPECT_EQ(ordered_json::parse(file + "]").size(), static_cast<size_t>(i + 1));
  }
  EXPECT_EQ(writer.take(), "");
  writer.end();
  EXPECT_EQ(ordered_json::parse(file + writer.take()).size(), 3U);
  ChromeTraceWriter empty;
  empty.end();
  EXPECT_EQ(ordered_json::parse(empty.take()), ordered_json::array());
}

}  // namespace
}  // namespace millrace::chrome_trace_writer_test
