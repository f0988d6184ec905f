#include "millrace/formats/storage/remote/remote_storage.h"

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/formats/records/shards.h"
#include "tests/formats/storage/remote/fetch.h"
#include "tests/formats/storage/remote/manual_http_clock.h"
#include "tests/formats/storage/remote/object_server.h"
#include "tests/support/forked_child.h"
#include "tests/support/sanitized.h"
#include "tests/support/shard_driver.h"

namespace millrace::remote_storage_test {
namespace {

using test::content_of;
using test::fetch;
using test::fetch_by_clock;
using test::fetch_by_idle_clock;
using test::Fetched;
using test::hasty;
using test::ManualHttpClock;
using test::ObjectServer;
using test::ServedFault;
using test::ServedRequest;
using test::TimedFetch;
using test::WakeFlag;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Kind = ServedFault::Kind;

TEST(RemoteStorage, ReadsAnObjectWithSeveralRequestsInFlight) {
  ObjectServer server({.first_byte = std::chrono::milliseconds(5)});
  const std::string content = content_of(1'500'000);
  server.put("a", content);
  RemoteStorage storage(hasty());
  const Fetched fetched = fetch(storage, server.url("a"));
  ASSERT_FALSE(fetched.error) << fetched.error->to_string();
  EXPECT_TRUE(fetched.bytes == content);
  EXPECT_GE(server.most_in_flight(), 3U);
  for (const ServedRequest& request : server.requests()) {
    if (request.number == 0) continue;
    EXPECT_EQ(request.headers.at("if-match"), "\"tag-1\"");
  }
}

TEST(RemoteStorage, OpensSmallAndEmptyObjectsWithOneRequest) {
  ObjectServer server;
  for (const size_t bytes : {0, 1, 65535, 65536}) {
    const std::string name = std::to_string(bytes);
    server.put(name, content_of(bytes));
    const size_t before = server.requests().size();
    RemoteStorage storage(hasty());
    const Fetched fetched = fetch(storage, server.url(name));
    ASSERT_FALSE(fetched.error) << fetched.error->to_string();
    EXPECT_EQ(fetched.bytes, content_of(bytes));
    EXPECT_EQ(server.requests().size() - before, 1U) << bytes;
  }
}

// Each fault at one request, at the first and in the middle: the same bytes, or an error that names URL and cause.
TEST(RemoteStorage, GetsOverWhatAServerDoesWrong) {
  const std::string content = content_of(500'000);
  for (const Kind kind : {Kind::kResetBeforeHead, Kind::kResetInHead, Kind::kResetInBody, Kind::kCloseInBody,
                          Kind::kChunked, Kind::kEncodedHalf, Kind::kEncodedCut, Kind::kMarkedEncoded,
                          Kind::kMarkedChunked, Kind::kGarbage, Kind::kWeakTag, Kind::kPartAsWhole}) {
    for (const uint64_t number : {0, 1, 3}) {
      ObjectServer server({.fault = [&](const ServedRequest& request) {
        return ServedFault{.kind = request.number == number ? kind : Kind::kNone};
      }});
      server.put("a", content);
      RemoteStorage storage(hasty());
      const Fetched fetched = fetch(storage, server.url("a"));
      ASSERT_FALSE(fetched.error) << static_cast<int>(kind) << " at " << number << ": " << fetched.error->to_string();
      EXPECT_TRUE(fetched.bytes == content) << static_cast<int>(kind) << " at " << number;
    }
  }
}

TEST(RemoteStorage, AsksABusyServerAgain) {
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    ObjectServer server({.fault = [&](const ServedRequest& request) {
      return ServedFault{
          .kind = request.number % 3 != 2 ? Kind::kStatus : Kind::kNone, .status = status, .text = "SlowDown"};
    }});
    server.put("a", content_of(200'000));
    RemoteStorage storage(hasty());
    const Fetched fetched = fetch(storage, server.url("a"));
    ASSERT_FALSE(fetched.error) << fetched.error->to_string();
    EXPECT_TRUE(fetched.bytes == content_of(200'000));
  }
}

TEST(RemoteStorage, SaysWhatIsWrong) {
  struct Case {
    ServedFault fault;
    std::string message;
  };
  for (const Case& c :
       {Case{{.kind = Kind::kStatus, .status = 403, .text = "<Code>AccessDenied</Code>"},
             "status 403: <Code>AccessDenied"},
        Case{{.kind = Kind::kStatus, .status = 404, .headers = {{"x-amz-request-id", "4442587FB7D0A2F9"}}},
             "status 404 (x-amz-request-id 4442587FB7D0A2F9)"},
        Case{{.kind = Kind::kStatus, .status = 302}, "status 302, which leads nowhere"},
        Case{{.kind = Kind::kStatus, .status = 302, .headers = {{"Location", "ftp://example.org/a"}}}, "leads nowhere"},
        Case{{.kind = Kind::kWrongContentRange}, "it answers with other bytes"},
        Case{{.kind = Kind::kNoContentRange}, "its Content-Range '' cannot be read"},
        Case{{.kind = Kind::kWholeObject}, "it sends no ranges"},
        Case{{.kind = Kind::kEncoded}, "what it sends is encoded as 'gzip', and not the "},
        Case{{.kind = Kind::kEncodedChunked}, "what it sends is encoded as 'gzip', and not the "},
        Case{{.kind = Kind::kStatus, .status = 200, .headers = {{"Content-Encoding", "gzip"}}, .text = "packed"},
             "it sends no ranges, and what it sends is encoded as 'gzip'"}}) {
    for (const uint64_t number : {0, 2}) {
      ObjectServer server(
          {.fault = [&](const ServedRequest& request) { return request.number >= number ? c.fault : ServedFault(); }});
      server.put("a", content_of(500'000));
      RemoteStorage storage(hasty());
      const Fetched fetched = fetch(storage, server.url("a"));
      ASSERT_TRUE(fetched.error) << c.message;
      EXPECT_THAT(fetched.error->message, AllOf(StartsWith("cannot read it: "), HasSubstr(c.message)));
      EXPECT_EQ(fetched.error->shard, server.url("a"));
      EXPECT_TRUE(content_of(500'000).starts_with(fetched.bytes));
    }
  }
}

// While a call waits for others to end, it is not a server that says nothing.
TEST(RemoteStorage, CountsNoDeadlineWhileARequestWaitsForItsTurn) {
  std::atomic<bool> stalls = true;
  ObjectServer server({.fault = [&](const ServedRequest& request) {
    return ServedFault{.kind = request.path == "/a" && stalls ? Kind::kStallBeforeHead : Kind::kNone};
  }});
  server.put("a", content_of(10));
  server.put("b", content_of(20));
  const auto clock = std::make_shared<ManualHttpClock>();
  const auto engine =
      std::make_shared<HttpEngine>(HttpEngineOptions{.limits = {.most = 1, .most_small = 1}, .clock = clock});
  class Sink final : public HttpSink {
   public:
    void answered(HttpResponse response) noexcept override {
      answer = std::move(response);
      flag.wake();
    }
    HttpResponse answer;
    WakeFlag flag;
  };
  const auto first = std::make_shared<Sink>();
  const auto second = std::make_shared<Sink>();
  engine->start({.url = server.url("a")}, first);
  engine->start({.url = server.url("b")}, second);
  while (server.requests().empty()) std::this_thread::yield();
  clock->turn(HttpDeadlines().first_byte);
  engine->look_at_clock();
  ASSERT_TRUE(first->flag.wait());
  ASSERT_TRUE(second->flag.wait());
  EXPECT_EQ(first->answer.failure, HttpFailure::kTimeout);
  EXPECT_EQ(second->answer.failure, HttpFailure::kNone) << second->answer.reason;
  EXPECT_EQ(second->answer.body, content_of(20));
  EXPECT_EQ(engine->statistics().requests, 2U);
  EXPECT_EQ(engine->statistics().answers, 1U);
  EXPECT_EQ(engine->statistics().bytes, 20U);
}

TEST(RemoteStorage, CountsAttemptsAgain) {
  ObjectServer server({.fault = [](const ServedRequest& request) {
    return ServedFault{.kind = request.number < 2 ? Kind::kStatus : Kind::kNone, .status = 503};
  }});
  server.put("a", content_of(10));
  RemoteOptions options = hasty();
  options.engine = std::make_shared<HttpEngine>();
  RemoteStorage storage(options);
  EXPECT_FALSE(fetch(storage, server.url("a")).error);
  EXPECT_EQ(options.engine->statistics().requests, 3U);
  EXPECT_EQ(options.engine->statistics().retries, 2U);
}

// Its thread is not there after a fork.
TEST(RemoteStorage, TheChildOfAForkHasAnEngineOfItsOwn) {
  if (test::kSanitized) GTEST_SKIP() << "forks with threads: the sanitizer's locks may be taken";
  ObjectServer server;
  server.put("a", content_of(100));
  const std::shared_ptr<RemoteStorage> of_parent = RemoteStorage::of_process();
  ASSERT_FALSE(fetch(*of_parent, server.url("a")).error);
  const test::ForkedChild child([&] {
    const std::shared_ptr<RemoteStorage> storage = RemoteStorage::of_process();
    if (storage == of_parent || fetch(*storage, server.url("a")).bytes != content_of(100)) ::_exit(1);
  });
  EXPECT_TRUE(child.did_it());
  EXPECT_FALSE(fetch(*of_parent, server.url("a")).error) << "that of the parent goes on";
}

// Its thread may be in OpenSSL, which takes its memory back at the end of the process.
TEST(RemoteStorageDeathTest, EndsItsThreadWhenTheProcessExits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto exit_while_it_asks = [] {
    static std::atomic<bool> told = false;
    std::atexit([] { ::_exit(told ? 7 : 8); });  // after the engine's
    struct Sink final : OpenSink {
      void open_done(OpenResult) noexcept override { told = true; }
    };
    static ObjectServer server(
        {.fault = [](const ServedRequest&) { return ServedFault{.kind = Kind::kStallBeforeHead}; }});
    static const std::shared_ptr<RemoteStorage> storage = RemoteStorage::of_process();
    storage->open(server.url("a"), std::make_shared<Sink>());
    std::exit(1);
  };
  EXPECT_EXIT(exit_while_it_asks(), testing::ExitedWithCode(7), "");
}

TEST(RemoteStorage, DoesNotAskAgainWithoutCertificates) {
  ObjectServer server;
  RemoteOptions options = hasty();
  options.retries.give_up_after = std::chrono::milliseconds(200);
  options.engine = std::make_shared<HttpEngine>(HttpEngineOptions{.ca_file = "/no/such/file.pem"});
  RemoteStorage storage(options);
  const Fetched fetched = fetch(storage, "https" + server.url("a").substr(4));
  ASSERT_TRUE(fetched.error);
  EXPECT_THAT(fetched.error->message, AllOf(HasSubstr("/no/such/file.pem"), Not(HasSubstr("attempts"))));
}

TEST(RemoteStorage, NamesBothVersionsOfAnObjectThatChanges) {
  ObjectServer server({.fault = [&](const ServedRequest& request) {
    return ServedFault{.kind = request.number == 2 ? Kind::kOtherTag : Kind::kNone};
  }});
  server.put("a", content_of(500'000));
  RemoteStorage storage(hasty());
  const Fetched fetched = fetch(storage, server.url("a"));
  ASSERT_TRUE(fetched.error);
  EXPECT_THAT(
      fetched.error->message,
      HasSubstr("it was changed while it was read: was etag tag-1, 500000 bytes, is etag another, 500000 bytes"));
  EXPECT_LE(server.requests().size(), 8U) << "no attempt after it";
}

// What is there after a refused condition may have the same size, and a tag that says nothing.
TEST(RemoteStorage, ReadsNothingOfAnObjectThatTheServerSaysIsAnother) {
  const std::string content = content_of(500'000);
  ObjectServer server({.fault = [&](const ServedRequest& request) -> ServedFault {
    if (request.number == 2) return {.kind = Kind::kStatus, .status = 412};
    const std::string range = request.headers.at("range");
    if (request.headers.contains("if-match") || request.number < 2) return {};
    const size_t begin = std::stoul(range.substr(range.find('=') + 1));
    const size_t end = std::min<size_t>(std::stoul(range.substr(range.find('-') + 1)) + 1, content.size());
    return {.kind = Kind::kStatus,
            .status = 206,
            .headers = {{"ETag", "W/\"weak\""},
                        {"Content-Range", fmt::format("bytes {}-{}/{}", begin, end - 1, content.size())}},
            .text = std::string(end - begin, 'x')};
  }});
  server.put("a", content);
  RemoteStorage storage(hasty());
  const Fetched fetched = fetch(storage, server.url("a"));
  ASSERT_TRUE(fetched.error);
  EXPECT_THAT(fetched.error->message, HasSubstr("it was changed while it was read: was etag tag-1, 500000 bytes, is "));
  EXPECT_TRUE(content.starts_with(fetched.bytes));
}

TEST(RemoteStorage, FollowsRedirectsAndRemembersWhereTheyLead) {
  ObjectServer other;
  other.put("signed", content_of(500'000));
  ObjectServer server({.fault = [&](const ServedRequest&) {
    return ServedFault{.kind = Kind::kStatus,
                       .status = 302,
                       .headers = {{"Location", other.url("signed") + "?signature=secret"},
                                   {"X-Linked-Etag", "\"sha\""},
                                   {"X-Linked-Size", "500000"}}};
  }});
  RemoteStorage storage(hasty());
  const Fetched fetched = fetch(storage, server.url("a"));
  ASSERT_FALSE(fetched.error) << fetched.error->to_string();
  EXPECT_TRUE(fetched.bytes == content_of(500'000));
  EXPECT_EQ(server.requests().size(), 1U);
  EXPECT_GT(other.requests().size(), 3U);
}

TEST(RemoteStorage, GivesUpOnALoopOfRedirects) {
  ObjectServer server({.fault = [&](const ServedRequest&) {
    return ServedFault{.kind = Kind::kStatus, .status = 307, .headers = {{"Location", "/a"}}};
  }});
  RemoteStorage storage(hasty());
  const Fetched fetched = fetch(storage, server.url("a"));
  ASSERT_TRUE(fetched.error);
  EXPECT_THAT(fetched.error->message, HasSubstr("more than 5 redirects"));
  EXPECT_EQ(server.requests().size(), 6U);
}

TEST(RemoteStorage, AsksAgainWhereAnAnswerStandsStill) {
  for (const Kind kind : {Kind::kStallBeforeHead, Kind::kStallInBody}) {
    for (const uint64_t number : {0, 2}) {
      ObjectServer server({.fault = [&](const ServedRequest& request) {
        return ServedFault{.kind = request.number == number ? kind : Kind::kNone};
      }});
      server.put("a", content_of(500'000));
      const TimedFetch timed = fetch_by_clock(server.url("a"));
      ASSERT_FALSE(timed.fetched.error) << timed.fetched.error->to_string();
      EXPECT_TRUE(timed.fetched.bytes == content_of(500'000));
      EXPECT_GE(timed.took, std::chrono::seconds(15));
    }
  }
}

TEST(RemoteStorage, GivesUpOnAServerThatNeverAnswers) {
  ObjectServer server({.fault = [&](const ServedRequest&) { return ServedFault{.kind = Kind::kStallBeforeHead}; }});
  const TimedFetch timed = fetch_by_idle_clock(server.url("a"));
  ASSERT_TRUE(timed.fetched.error);
  EXPECT_THAT(timed.fetched.error->message, AllOf(HasSubstr("no answer came in time"), HasSubstr("attempts")));
  EXPECT_GE(timed.took, test::kEarliestEnd);
  EXPECT_LE(timed.took, test::kLatestEnd);
}

// As a machine does that was suspended.
TEST(RemoteStorage, AsksAgainAfterTimeThatNobodySaw) {
  const auto clock = std::make_shared<ManualHttpClock>();
  ObjectServer server({.fault = [&](const ServedRequest& request) -> ServedFault {
    if (request.number != 0) return {};
    clock->turn(std::chrono::hours(1));
    return {.kind = Kind::kResetBeforeHead};
  }});
  server.put("a", "abc");
  const TimedFetch timed = fetch_by_clock(server.url("a"), clock);
  ASSERT_FALSE(timed.fetched.error) << timed.fetched.error->to_string();
  EXPECT_EQ(timed.fetched.bytes, "abc");
}

// A few bytes now and then are no progress: it ends, however often the server cuts its answers off.
TEST(RemoteStorage, GivesUpOnAServerThatSendsNextToNothing) {
  ObjectServer server({.fault = [&](const ServedRequest& request) {
    return ServedFault{.kind = request.number < 2 ? Kind::kNone : Kind::kStallAfterAByte};
  }});
  server.put("a", content_of(500'000));
  const TimedFetch timed = fetch_by_clock(server.url("a"));
  ASSERT_TRUE(timed.fetched.error);
  EXPECT_THAT(timed.fetched.error->message, AllOf(HasSubstr("too slowly"), HasSubstr("attempts")));
}

// A short outage drains no budget: all of many reads go on after it.
TEST(RemoteStorage, ManyReadsOutliveAnOutage) {
  std::atomic<int> refused = 0;
  ObjectServer server({.fault = [&](const ServedRequest&) {
    return ServedFault{.kind = refused++ < 150 ? Kind::kResetBeforeHead : Kind::kNone};
  }});
  RemoteOptions options = hasty();
  options.engine = std::make_shared<HttpEngine>();
  RemoteStorage storage(options);
  std::vector<std::thread> threads;
  std::atomic<int> failed = 0;
  for (int i = 0; i < 32; ++i) server.put(fmt::format("a{}", i), content_of(1000));
  for (int i = 0; i < 32; ++i) {
    threads.emplace_back([&, i] { failed += fetch(storage, server.url(fmt::format("a{}", i))).error ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
}

TEST(RemoteStorage, DoesNotWaitForHoursWhereAServerAsksForThat) {
  ObjectServer server({.fault = [&](const ServedRequest&) {
    return ServedFault{.kind = Kind::kStatus, .status = 503, .headers = {{"Retry-After", "3600"}}};
  }});
  const TimedFetch timed = fetch_by_clock(server.url("a"));
  ASSERT_TRUE(timed.fetched.error);
  EXPECT_THAT(timed.fetched.error->message, HasSubstr("status 503"));
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST(RemoteStorage, TellsNoPasswordAndNoQuery) {
  ObjectServer server(
      {.fault = [](const ServedRequest&) { return ServedFault{.kind = Kind::kStatus, .status = 403}; }});
  RemoteStorage storage(hasty());
  const Fetched signed_url = fetch(storage, server.url("a?X-Amz-Signature=0a1b2c"));
  ASSERT_TRUE(signed_url.error);
  EXPECT_THAT(signed_url.error->to_string(), AllOf(HasSubstr("/a?..."), Not(HasSubstr("0a1b2c"))));
  const Fetched with_password = fetch(storage, "http://user:hidden@127.0.0.1:1/a");
  ASSERT_TRUE(with_password.error);
  EXPECT_THAT(with_password.error->to_string(),
              AllOf(HasSubstr("may name no user or password"), Not(HasSubstr("hidden"))));
  EXPECT_EQ(server.requests().size(), 1U);
  for (const char* url : {"https://host:99999/a?sig=0a1b2c", "https://user:hidden@host/part-*?sig=0a1b2c",
                          "https://host/part-{7..3}?sig=0a1b2c", "https://host/part-{0..9999999999}?sig=0a1b2c",
                          "https://host/a**?sig=0a1b2c"}) {
    try {
      const Shards shards = Shards::glob(url);
      const Fetched fetched = fetch(storage, shards.path(0));
      ASSERT_TRUE(fetched.error) << url;
      EXPECT_THAT(fetched.error->to_string(), Not(AnyOf(HasSubstr("0a1b2c"), HasSubstr("hidden"))));
    } catch (const ErrorException& exception) {
      EXPECT_THAT(exception.what(), AllOf(HasSubstr("host"), Not(AnyOf(HasSubstr("0a1b2c"), HasSubstr("hidden")))));
    }
  }
}

TEST(RemoteStorage, ObeysRetryAfter) {
  using Fields = std::map<std::string, std::string>;
  for (const Fields& fields : {Fields{{"Retry-After", "20"}}, Fields{{"Retry-After", "Mon, 07 Dec 2026 09:00:20 GMT"},
                                                                     {"Date", "Mon, 07 Dec 2026 09:00:00 GMT"}}}) {
    ObjectServer server({.fault = [&](const ServedRequest& request) {
      return ServedFault{.kind = request.number == 0 ? Kind::kStatus : Kind::kNone, .status = 503, .headers = fields};
    }});
    server.put("a", "abc");
    const TimedFetch timed = fetch_by_clock(server.url("a"));
    EXPECT_EQ(timed.fetched.bytes, "abc");
    EXPECT_GE(timed.took, std::chrono::seconds(20));
  }
}

TEST(RemoteStorage, TellsWhoReadsWhenItIsCancelled) {
  ObjectServer server({.fault = [&](const ServedRequest& request) {
    return ServedFault{.kind = request.number == 0 ? Kind::kNone : Kind::kStallBeforeHead};
  }});
  server.put("a", content_of(100'000));
  RemoteStorage storage(hasty());
  const auto sink = std::make_shared<test::ReadAndOpenSink>();
  storage.open(server.url("a"), sink);
  ASSERT_TRUE(sink->flag.wait());
  std::vector<std::byte> room(1000);
  sink->open.file->read(70'000, room, sink);
  while (server.requests().size() < 2) std::this_thread::yield();
  sink->open.file->cancel();
  ASSERT_TRUE(sink->flag.wait());
  EXPECT_FALSE(sink->read.ok);
  EXPECT_THAT(sink->read.error.error.message, HasSubstr("cancelled"));
  EXPECT_FALSE(sink->read.error.retriable);
}

TEST(RemoteStorage, ExpandsNumbersOfAPattern) {
  RemoteStorage storage;
  EXPECT_THAT(storage.glob("https://host/part-{08..11}.tfrecord"),
              testing::ElementsAre("https://host/part-08.tfrecord", "https://host/part-09.tfrecord",
                                   "https://host/part-10.tfrecord", "https://host/part-11.tfrecord"));
  EXPECT_THAT(storage.glob("http://h/{1..2}/{a}{3..3}?x"),
              testing::ElementsAre("http://h/1/{a}3?x", "http://h/2/{a}3?x"));
  for (const char* refused : {"http://h/*.tfrecord", "http://h/[ab]", "http://h/{3..1}", "http://h/{0..9999999}",
                              "http://h/{1..1000}/{1..1001}"}) {
    EXPECT_THROW((void)storage.glob(refused), ErrorException) << refused;
  }
}

}  // namespace
}  // namespace millrace::remote_storage_test
