#include "millrace/pipeline/trace.h"

#include <map>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/support/temporary_folder.h"

namespace millrace::trace_test {
namespace {

using nlohmann::ordered_json;
using ::testing::Contains;
using ::testing::IsSubsetOf;

struct Span {
  std::string name;
  double begin;
  double end;
};

/// A trace as a viewer reads it.
struct ReadTrace {
  explicit ReadTrace(const Trace& trace) {
    double last = 0;
    for (const ordered_json& event : ordered_json::parse(trace.to_json())) {
      const std::string phase = event.at("ph");
      EXPECT_EQ(event.at("pid"), 1);
      if (phase == "M") {
        if (event.at("name") == "thread_name") threads[event.at("tid")] = event.at("args").at("name");
        continue;
      }
      const double at = event.at("ts");
      EXPECT_GE(at, last) << "not in order of time";
      last = at;
      if (phase == "X") spans[event.at("tid")].push_back({event.at("name"), at, at + event.at("dur").get<double>()});
      if (phase == "C") counters[event.at("name")].push_back(event.at("args").at("blocks"));
      if (phase == "i") dropped = event.at("args").at("count");
    }
  }

  std::set<std::string> span_names() const {
    std::set<std::string> names;
    for (const auto& [thread, of_thread] : spans) {
      for (const Span& span : of_thread) names.insert(span.name);
    }
    return names;
  }
  int64_t num_spans() const {
    int64_t count = 0;
    for (const auto& [thread, of_thread] : spans) count += static_cast<int64_t>(of_thread.size());
    return count;
  }

  std::map<int, std::string> threads;
  std::map<int, std::vector<Span>> spans;  // by thread, in the order of the file
  std::map<std::string, std::vector<int64_t>> counters;
  int64_t dropped = -1;
};

// Of two spans of a thread one lies inside the other, or after it. Times are rounded to nanoseconds.
void expect_nested(const ReadTrace& read) {
  constexpr double kRounding = 0.002;
  for (const auto& [thread, spans] : read.spans) {
    EXPECT_TRUE(read.threads.contains(thread)) << thread;
    std::vector<Span> open;
    for (const Span& span : spans) {
      while (!open.empty() && open.back().end <= span.begin + kRounding) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(span.end, open.back().end + kRounding) << span.name << " in " << open.back().name;
      }
      open.push_back(span);
    }
  }
}

Dataset summed(int64_t stop) { return Dataset::range(0, stop).add("value", 1).shuffle(50).batch(16).prefetch(2); }

TEST(Trace, HasTheStagesOfThePlanNestedAndInOrder) {
  for (const int threads : {1, 4}) {
    const WorkerLimit limit(threads);
    const auto trace = std::make_shared<Trace>();
    std::set<std::string> stages;
    {
      Pipeline pipeline = summed(200'000).start({.threads = threads, .trace = trace});
      while (pipeline.next()) {
      }
      for (const StageReport& stage : pipeline.stats().stages) stages.insert(stage.name);
    }
    const ReadTrace read(*trace);
    EXPECT_EQ(read.dropped, 0);
    expect_nested(read);
    std::set<std::string> names = read.span_names();
    names.erase("next() waits");
    EXPECT_EQ(names, stages);
    EXPECT_FALSE(read.counters.empty());
    for (const auto& [name, values] : read.counters) {
      EXPECT_THAT(name, ::testing::StartsWith("queue of segment "));
      for (const int64_t value : values) EXPECT_THAT(value, ::testing::AllOf(::testing::Ge(0), ::testing::Le(64)));
    }
  }
}

TEST(Trace, HasTheReadsOfShards) {
  test::TemporaryFolder folder;
  for (int shard = 0; shard < 3; ++shard) {
    RecordWriter writer(folder.path(fmt::format("{}.tfrecord", shard)), {});
    for (int r = 0; r < 2000; ++r) writer.write(std::string(500, 'x'));
    writer.close();
  }
  const auto trace = std::make_shared<Trace>();
  {
    Pipeline pipeline = Dataset::tfrecord(Shards::glob(folder.path("*.tfrecord")), {.cycle_length = 2})
                            .batch(100)
                            .start({.threads = 2, .trace = trace});
    while (pipeline.next()) {
    }
  }
  const ReadTrace read(*trace);
  expect_nested(read);
  EXPECT_THAT(read.span_names(), ::testing::IsSupersetOf({std::string("read"), std::string("0:tfrecord.read")}));
}

TEST(Trace, ForgetsTheOldestEventsAndSaysHowMany) {
  const auto all = std::make_shared<Trace>();
  const auto few = std::make_shared<Trace>(100);
  for (const auto& trace : {all, few}) {
    Pipeline pipeline = summed(200'000).start({.threads = 1, .trace = trace});
    while (pipeline.next()) {
    }
  }
  EXPECT_EQ(all->num_dropped(), 0U);
  EXPECT_GT(few->num_dropped(), 0U);
  const ReadTrace read(*few);
  EXPECT_EQ(read.dropped, static_cast<int64_t>(few->num_dropped()));
  EXPECT_GT(read.num_spans(), 0);
  EXPECT_LE(read.num_spans(), 100 * static_cast<int64_t>(read.threads.size()));
  expect_nested(read);
}

TEST(Trace, KeepsWhatThreadsWriteApartAndQuotesNames) {
  Trace trace;
  const uint32_t name = trace.name("a \"quoted\" \\ name\n");
  EXPECT_EQ(trace.name("a \"quoted\" \\ name\n"), name);
  trace.span(name, 1000, 5000);
  std::jthread([&] { trace.span(trace.name("other"), 2000, 9000); }).join();
  const uint32_t lane = trace.take_lane();
  EXPECT_NE(trace.take_lane(), lane);
  trace.give_back_lane(lane);
  EXPECT_EQ(trace.take_lane(), lane);
  trace.lane_span(name, 0, 1, lane);
  const ReadTrace read(trace);
  ASSERT_EQ(read.spans.size(), 3U);
  EXPECT_EQ(read.spans.at(1)[0].name, "a \"quoted\" \\ name\n");
  EXPECT_DOUBLE_EQ(read.spans.at(1)[0].begin, 1.0);
  EXPECT_DOUBLE_EQ(read.spans.at(1)[0].end, 5.0);
  EXPECT_DOUBLE_EQ(read.spans.at(2)[0].end, 9.0);
}

TEST(Trace, DoesNotChangeTheStream) {
  std::vector<std::vector<int64_t>> streams;
  for (const auto& trace : {std::shared_ptr<Trace>(), std::make_shared<Trace>(10)}) {
    Pipeline pipeline = summed(5000).start({.threads = 3, .trace = trace});
    std::vector<int64_t>& stream = streams.emplace_back();
    while (const auto batch = pipeline.next()) {
      const auto values = batch->values<int64_t>("value");
      stream.insert(stream.end(), values.begin(), values.end());
    }
  }
  EXPECT_EQ(streams[0], streams[1]);
}

}  // namespace
}  // namespace millrace::trace_test
