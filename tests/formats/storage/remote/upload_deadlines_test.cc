// How long a body may take to be sent: as long as it moves.
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/remote/http_engine.h"
#include "tests/formats/storage/remote/idle_http_clock.h"
#include "tests/formats/storage/remote/manual_http_clock.h"
#include "tests/formats/storage/remote/object_server.h"
#include "tests/support/shard_driver.h"

namespace millrace::upload_deadlines_test {
namespace {

using test::IdleHttpClock;
using test::ManualHttpClock;
using test::ObjectServer;
using test::ServedFault;
using test::ServedRequest;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class Sink final : public HttpSink {
 public:
  void answered(HttpResponse response) noexcept override {
    answer = std::move(response);
    is_there = true;
    flag.wake();
  }
  HttpResponse answer;
  std::atomic<bool> is_there = false;
  test::WakeFlag flag;
};

HttpRequest put(const ObjectServer& server, size_t bytes) {
  HttpRequest request{.method = HttpMethod::kPut, .url = server.url("a")};
  request.shared_body = {.buffer = std::make_shared<const std::string>(bytes, 'x'), .size = bytes};
  return request;
}

class SlowUploads : public testing::TestWithParam<ServedFault::Kind> {};
INSTANTIATE_TEST_SUITE_P(UploadDeadlines, SlowUploads,
                         testing::Values(ServedFault::Kind::kNone, ServedFault::Kind::kInterimBeforeUpload));

TEST_P(SlowUploads, ThatMoveAreNotGivenUp) {
  // More than sockets hold: what is sent of one step is no part of the one before.
  constexpr size_t kStep = 12 << 20;
  constexpr size_t kSteps = 5;
  std::atomic<size_t> may_read = 0;
  std::atomic<size_t> read = 0;
  ObjectServer server({.fault = [](const ServedRequest&) { return ServedFault{.kind = GetParam()}; },
                       .upload_pace =
                           [&](const ServedRequest&, size_t so_far) {
                             read = so_far;
                             return may_read > so_far ? may_read - so_far : 0;
                           }});
  server.put("a", "answer");
  const auto clock = std::make_shared<ManualHttpClock>();
  const auto engine = std::make_shared<HttpEngine>(HttpEngineOptions{.clock = clock});
  const auto sink = std::make_shared<Sink>();
  engine->start(put(server, kStep * kSteps), sink);
  for (size_t step = 1; step < kSteps; ++step) {
    may_read = step * kStep;
    while (read < step * kStep && !sink->is_there) std::this_thread::yield();
    ASSERT_FALSE(sink->is_there) << "in step " << step << ": " << sink->answer.reason;
    clock->turn(std::chrono::seconds(14));
    engine->look_at_clock();
  }
  may_read = kStep * kSteps;
  ASSERT_TRUE(sink->flag.wait());
  EXPECT_EQ(sink->answer.failure, HttpFailure::kNone) << sink->answer.reason;
  EXPECT_EQ(sink->answer.body, "answer");
  EXPECT_GT(clock->now(), HttpDeadlines().whole);
}

// 8 KiB/s, half of what is asked for.
TEST(UploadDeadlines, AnUploadThatTricklesIsGivenUp) {
  const auto clock = std::make_shared<ManualHttpClock>();
  ObjectServer server({.upload_pace = [&](const ServedRequest&, size_t so_far) {
    const auto may_read = static_cast<size_t>(clock->now().count() / 1'000'000'000 * (8 << 10));
    return may_read > so_far ? may_read - so_far : 0;
  }});
  server.put("a", "answer");
  const auto engine = std::make_shared<HttpEngine>(HttpEngineOptions{.clock = clock});
  const auto sink = std::make_shared<Sink>();
  engine->start(put(server, 64 << 20), sink);
  while (!sink->is_there && clock->now() < std::chrono::minutes(20)) {
    clock->turn(std::chrono::seconds(1));
    engine->look_at_clock();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ASSERT_TRUE(sink->is_there);
  EXPECT_EQ(sink->answer.failure, HttpFailure::kTimeout);
}

TEST(UploadDeadlines, AnUploadThatStandsStillIsGivenUp) {
  for (const size_t reads : {size_t{0}, size_t{20} << 20}) {
    ObjectServer server({.fault =
                             [&](const ServedRequest&) {
                               return ServedFault{.kind = reads == 0 ? ServedFault::Kind::kStallUpload
                                                                     : ServedFault::Kind::kNone};
                             },
                         .upload_pace = [&](const ServedRequest&, size_t so_far) { return reads - so_far; }});
    const auto engine = std::make_shared<HttpEngine>(HttpEngineOptions{.clock = std::make_shared<IdleHttpClock>()});
    const auto sink = std::make_shared<Sink>();
    constexpr size_t kBytes = 64 << 20;
    engine->start(put(server, kBytes), sink);
    ASSERT_TRUE(sink->flag.wait());
    EXPECT_EQ(sink->answer.failure, HttpFailure::kTimeout);
    EXPECT_THAT(sink->answer.reason,
                AllOf(StartsWith("not enough could be sent in time: "), HasSubstr("of 67108864 bytes")));
  }
}

// What changes something may have been carried out when its connection breaks off: whoever asked has to know.
TEST(UploadDeadlines, WhatMayHaveBeenDoneIsNotSentAgainUnseen) {
  ObjectServer server({.fault = [](const ServedRequest& request) {
    return ServedFault{.kind =
                           request.number % 2 == 1 ? ServedFault::Kind::kResetBeforeHead : ServedFault::Kind::kNone};
  }});
  server.put("a", "answer");
  const auto engine = std::make_shared<HttpEngine>();
  size_t num_requests = 0;
  for (const HttpMethod method : {HttpMethod::kPut, HttpMethod::kPost, HttpMethod::kDelete, HttpMethod::kGet}) {
    for (const bool is_first : {true, false}) {
      HttpRequest request = put(server, method == HttpMethod::kPut ? 100'000 : 0);
      request.method = method;
      const auto sink = std::make_shared<Sink>();
      engine->start(std::move(request), sink);
      ASSERT_TRUE(sink->flag.wait());
      // The second one goes over the connection of the first, which is closed then.
      const bool is_lost = !is_first && method != HttpMethod::kGet;
      EXPECT_EQ(sink->answer.failure, is_lost ? HttpFailure::kTransport : HttpFailure::kNone) << sink->answer.reason;
      num_requests += is_first || is_lost ? 1 : 2;
      EXPECT_EQ(server.requests().size(), num_requests);
    }
  }
}

TEST(UploadDeadlines, AServerThatReadAllAndSaysNothingIsGivenUp) {
  ObjectServer server(
      {.fault = [](const ServedRequest&) { return ServedFault{.kind = ServedFault::Kind::kStallBeforeHead}; }});
  const auto engine = std::make_shared<HttpEngine>(HttpEngineOptions{.clock = std::make_shared<IdleHttpClock>()});
  for (const size_t bytes : {size_t{0}, size_t{10}, size_t{10} << 20}) {
    const auto sink = std::make_shared<Sink>();
    engine->start(put(server, bytes), sink);
    ASSERT_TRUE(sink->flag.wait());
    EXPECT_EQ(sink->answer.failure, HttpFailure::kTimeout);
    EXPECT_EQ(sink->answer.reason, "no answer came in time") << bytes;
  }
}

}  // namespace
}  // namespace millrace::upload_deadlines_test
