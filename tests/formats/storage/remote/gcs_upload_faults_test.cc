// What goes wrong while an object is written to Google Cloud Storage: it comes whole, or there is one error and nothing
// in the store.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/remote/remote_storage.h"
#include "tests/formats/storage/remote/fetch.h"
#include "tests/formats/storage/remote/google_client.h"
#include "tests/formats/storage/remote/google_server.h"
#include "tests/formats/storage/remote/idle_http_clock.h"
#include "tests/formats/storage/remote/upload_client.h"
#include "tests/support/sanitized.h"

namespace millrace::gcs_upload_faults_test {
namespace {

using test::content_of;
using test::google_options;
using test::GoogleFault;
using test::GoogleRequest;
using test::GoogleServer;
using test::GoogleServerOptions;
using test::GoogleUploadFault;
using test::write_object;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Kind = GoogleFault::Kind;

constexpr size_t kChunk = 512 << 10;
const OutputOptions kChunks{.part_bytes = kChunk};

// Stalls and waits cost no time.
RemoteOptions options_of(const GoogleServer& server) {
  RemoteOptions options = google_options(server, {});
  options.engine = std::make_shared<HttpEngine>(HttpEngineOptions{.clock = std::make_shared<test::IdleHttpClock>()});
  return options;
}

bool is_upload(const GoogleRequest& request) { return request.target.starts_with("/upload/"); }
std::string range_of(const GoogleRequest& request) {
  const auto field = request.headers.find("content-range");
  return field == request.headers.end() ? "" : field->second;
}
bool is_question(const GoogleRequest& request) { return range_of(request).starts_with("bytes */"); }
bool is_chunk(const GoogleRequest& request) { return !range_of(request).empty() && !is_question(request); }
bool begins(const GoogleRequest& request) {
  return request.target.find("uploadType=resumable&name") != std::string::npos && request.method == "POST";
}

struct Fault {
  GoogleFault after = {};
  GoogleUploadFault before = GoogleUploadFault::kNone;
};

const std::vector<Fault>& passing_faults() {
  static const std::vector<Fault> faults{
      {.after = {.kind = Kind::kAnswer, .status = 500}},
      {.after = {.kind = Kind::kAnswer, .status = 503, .body = "busy"}},
      {.after = {.kind = Kind::kAnswer, .status = 429, .headers = {{"Retry-After", "2"}}}},
      {.after = {.kind = Kind::kAnswer, .status = 408}},
      {.after = {.kind = Kind::kAnswer, .status = 401}},
      {.after = {.kind = Kind::kHang}},
      {.after = {.kind = Kind::kReset}},
      {.after = {.kind = Kind::kLoseAnswer}},
      {.after = {.kind = Kind::kKeepLess, .kept = 0}},
      {.after = {.kind = Kind::kKeepLess, .kept = 256 << 10}},
      {.before = GoogleUploadFault::kReset},
      {.before = GoogleUploadFault::kStall}};
  return faults;
}

TEST(GcsUploadFaults, EachAloneIsGotOver) {
  for (const size_t size : {kChunk, 3 * kChunk + 3}) {
    const std::string content = content_of(size);
    const int num_requests = size <= kChunk ? 1 : 5;
    for (size_t i = 0; i < passing_faults().size(); ++i) {
      for (int number = 0; number < num_requests; ++number) {
        const Fault& fault = passing_faults()[i];
        std::atomic<int> before = 0;  // of requests that upload
        std::atomic<int> after = 0;
        GoogleServer server({.fault =
                                 [&](const GoogleRequest& request) {
                                   return is_upload(request) && after++ == number ? fault.after : GoogleFault();
                                 },
                             .upload_fault =
                                 [&](const GoogleRequest& request) {
                                   return is_upload(request) && before++ == number ? fault.before
                                                                                   : GoogleUploadFault::kNone;
                                 }});
        server.put("bucket", "other", "");
        RemoteStorage storage(options_of(server));
        const auto error = write_object(storage, "gs://bucket/a", content, kChunks);
        ASSERT_FALSE(error) << "fault " << i << " at " << number << ": " << error->to_string();
        EXPECT_TRUE(server.content("bucket", "a") == content) << "fault " << i << " at " << number;
        // Nobody knows the URL of a session whose beginning was not told; it ends by itself.
        const bool has_left_one = size > kChunk && number == 0 && fault.after.kind == Kind::kLoseAnswer;
        EXPECT_EQ(server.num_sessions(), has_left_one ? 1U : 0U) << "fault " << i << " at " << number;
      }
    }
  }
}

// What is kept is not sent again.
TEST(GcsUploadFaults, GoesOnFromWhatIsKept) {
  std::atomic<int> chunks = 0;
  GoogleServer server({.fault = [&](const GoogleRequest& request) -> GoogleFault {
    if (!is_chunk(request)) return {};
    switch (chunks++) {
      case 0: return {.kind = Kind::kKeepLess, .kept = 256 << 10};
      case 2: return {.kind = Kind::kLoseAnswer};
      default: return {};
    }
  }});
  server.put("bucket", "other", "");
  RemoteStorage storage(options_of(server));
  ASSERT_FALSE(write_object(storage, "gs://bucket/a", content_of(3 * kChunk), kChunks));
  std::vector<std::string> ranges;
  for (const GoogleRequest& request : server.requests()) {
    if (!range_of(request).empty()) ranges.push_back(range_of(request));
  }
  EXPECT_THAT(ranges, testing::ElementsAre("bytes 0-524287/*", "bytes 262144-524287/*", "bytes 524288-1048575/*",
                                           "bytes */*", "bytes 1048576-1572863/1572864"));
  EXPECT_TRUE(server.content("bucket", "a") == content_of(3 * kChunk));
}

TEST(GcsUploadFaults, AnObjectWhoseLastAnswerWasLostIsThere) {
  for (const size_t size : {kChunk, 2 * kChunk}) {
    for (const bool forgets_session : {true, false}) {
      std::atomic<bool> is_lost = false;
      GoogleServer server({.fault = [&](const GoogleRequest& request) -> GoogleFault {
        const bool is_last = is_upload(request) && !begins(request) &&
                             (size == kChunk || range_of(request).ends_with(fmt::format("/{}", size)));
        if (!is_last) return {};
        if (!is_lost.exchange(true)) return {.kind = Kind::kLoseAnswer};
        if (forgets_session) return {.kind = Kind::kAnswer, .status = 410};
        return {};
      }});
      server.put("bucket", "other", "");
      RemoteStorage storage(options_of(server));
      OutputOptions options = kChunks;
      options.if_absent = true;
      const auto error = write_object(storage, "gs://bucket/a", content_of(size), options);
      EXPECT_FALSE(error) << error->to_string();
      EXPECT_TRUE(server.content("bucket", "a") == content_of(size));
    }
  }
}

TEST(GcsUploadFaults, AnotherObjectIsNotTakenForTheOneWhoseAnswerWasLost) {
  GoogleServer* place = nullptr;
  GoogleServer server({.fault = [&](const GoogleRequest& request) -> GoogleFault {
    if (!is_upload(request)) return {};
    place->put("bucket", "a", "of somebody else");
    return {.kind = Kind::kReset};
  }});
  place = &server;
  server.put("bucket", "other", "");
  RemoteStorage storage(options_of(server));
  EXPECT_TRUE(write_object(storage, "gs://bucket/a", "of somebody else", kChunks));
}

TEST(GcsUploadFaults, WhatStaysRefusedIsOneErrorAndNothingIsLeft) {
  const std::vector<std::function<bool(const GoogleRequest&)>> places{begins, is_chunk};
  for (size_t i = 0; i < places.size(); ++i) {
    GoogleServer server({.fault = [&](const GoogleRequest& request) -> GoogleFault {
      if (!places[i](request)) return {};
      return {.kind = Kind::kAnswer, .status = 403, .body = R"({"error": {"message": "no", "status": "DENIED"}})"};
    }});
    server.put("bucket", "a", "before");
    RemoteStorage storage(options_of(server));
    const auto error = write_object(storage, "gs://bucket/a", content_of(5 * kChunk), kChunks);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->message,
              fmt::format("cannot write it: status 403 (DENIED): no; asked of {}, credentials: metadata "
                          "server {}",
                          server.endpoint(), server.host()));
    EXPECT_EQ(server.content("bucket", "a"), "before");
    EXPECT_EQ(server.num_sessions(), 0U);
  }
}

// What it had confirmed is there no more, or more than was sent.
TEST(GcsUploadFaults, AStoreThatHasKeptSomethingElseIsNotBelieved) {
  for (const std::string range : {"", "bytes=0-99", "bytes=0-9999999", "bytes=5-99", "nothing"}) {
    std::atomic<int> chunks = 0;
    GoogleServer server({.fault = [&](const GoogleRequest& request) -> GoogleFault {
      if (!is_chunk(request) || chunks++ == 0) return {};
      GoogleFault fault{.kind = Kind::kAnswer, .status = 308};
      if (!range.empty()) fault.headers["Range"] = range;
      return fault;
    }});
    server.put("bucket", "other", "");
    RemoteStorage storage(options_of(server));
    const auto error = write_object(storage, "gs://bucket/a", content_of(3 * kChunk), kChunks);
    ASSERT_TRUE(error) << range;
    EXPECT_THAT(error->message, HasSubstr(fmt::format("status 308: it has kept '{}' of the bytes up to ", range)));
    EXPECT_EQ(server.num_sessions(), 0U);
  }
}

TEST(GcsUploadFaults, WhatAStoreEndsTooEarlyIsRemoved) {
  for (const bool is_lost : {false, true}) {
    std::atomic<int> number = 0;
    GoogleServer server({.fault = [&](const GoogleRequest& request) -> GoogleFault {
      if (range_of(request).empty()) return {};
      const int at = number++;
      if (is_lost && at == 0) return {.kind = Kind::kLoseAnswer};
      return {.kind = at == (is_lost ? 1 : 0) ? Kind::kEndEarly : Kind::kNone};
    }});
    server.put("bucket", "other", "");
    RemoteStorage storage(options_of(server));
    const auto error = write_object(storage, "gs://bucket/a", content_of(3 * kChunk), kChunks);
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message, HasSubstr("status 200: it ends the upload before its end"));
    EXPECT_EQ(server.content("bucket", "a"), std::nullopt);
  }
}

TEST(GcsUploadFaults, SaysWhenItCannotBeSeenWhetherAnObjectIsThere) {
  std::atomic<bool> is_lost = false;
  GoogleServer server({.fault = [&](const GoogleRequest& request) -> GoogleFault {
    if (request.target.starts_with("/storage/")) return {.kind = Kind::kAnswer, .status = 403};
    return {.kind = is_upload(request) && !is_lost.exchange(true) ? Kind::kLoseAnswer : Kind::kNone};
  }});
  server.put("bucket", "other", "");
  RemoteStorage storage(options_of(server));
  const auto error = write_object(storage, "gs://bucket/a", "some", {.if_absent = true});
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message, HasSubstr("; whether it is there cannot be seen: status 403"));
}

// Its number in an error would let others write the object.
TEST(GcsUploadFaults, ASessionThatCannotBeUsedIsNotNamed) {
  GoogleServer server({.fault = [&](const GoogleRequest& request) -> GoogleFault {
    if (!begins(request)) return {};
    return {.kind = Kind::kAnswer,
            .headers = {{"Location", "ftp://host/?upload_id=hidden"}, {"x-guploader-uploadid", "hidden"}}};
  }});
  server.put("bucket", "other", "");
  RemoteStorage storage(options_of(server));
  const auto error = write_object(storage, "gs://bucket/a", content_of(3 * kChunk), kChunks);
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message,
              AllOf(HasSubstr("its Location is no URL that can be written to"), Not(HasSubstr("hidden"))));
}

TEST(GcsUploadFaults, AStoreThatKeepsNothingIsGivenUp) {
  for (const Kind kind : {Kind::kKeepLess, Kind::kHang, Kind::kReset}) {
    GoogleServer server({.fault = [&](const GoogleRequest& request) {
      return is_chunk(request) ? GoogleFault{.kind = kind, .kept = 0} : GoogleFault();
    }});
    server.put("bucket", "other", "");
    RemoteStorage storage(options_of(server));
    const auto error = write_object(storage, "gs://bucket/a", content_of(3 * kChunk), kChunks);
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message, AllOf(HasSubstr("cannot write it: "), HasSubstr("attempts)")));
    EXPECT_EQ(server.num_sessions(), 0U);
  }
}

// The token ends between two chunks.
TEST(GcsUploadFaults, RenewsATokenThatEndsInTheMiddle) {
  std::atomic<int> chunks = 0;
  std::string ended;  // of the server's thread
  GoogleServer server({.fault = [&](const GoogleRequest& request) -> GoogleFault {
    if (is_chunk(request) && chunks++ == 1) ended = request.headers.at("authorization");
    const bool is_refused = !ended.empty() && is_upload(request) && request.headers.at("authorization") == ended;
    return is_refused ? GoogleFault{.kind = Kind::kAnswer, .status = 401} : GoogleFault();
  }});
  server.put("bucket", "other", "");
  RemoteStorage storage(options_of(server));
  const auto error = write_object(storage, "gs://bucket/a", content_of(4 * kChunk), kChunks);
  ASSERT_FALSE(error) << error->to_string();
  EXPECT_TRUE(server.content("bucket", "a") == content_of(4 * kChunk));
}

// A server that repeats all that it was sent. Whoever has the URL of a session may write its object.
TEST(GcsUploadFaults, NoSecretIsInAnError) {
  for (const bool in_json : {true, false}) {
    GoogleServer server({.fault = [&](const GoogleRequest& request) -> GoogleFault {
      if (!is_chunk(request)) return {};
      const std::string all = request.target + " " + request.headers.at("authorization");
      return {.kind = Kind::kAnswer,
              .status = 403,
              .headers = {{"x-guploader-uploadid", "hidden-session-1"}},
              .body = in_json ? "{\"error\": {\"message\": \"said " + all + "\"}}" : "said " + all};
    }});
    server.put("bucket", "other", "");
    RemoteStorage storage(options_of(server));
    const auto error = write_object(storage, "gs://bucket/a", content_of(3 * kChunk), kChunks);
    ASSERT_TRUE(error);
    EXPECT_THAT(error->to_string(), AllOf(HasSubstr("status 403: said "), HasSubstr("(request ...)"),
                                          Not(HasSubstr("hidden")), Not(HasSubstr("secret"))));
  }
}

// A token is not shown to a host that a server names.
TEST(GcsUploadFaults, ShowsNoTokenToTheHostOfASessionElsewhere) {
  GoogleServer other;
  GoogleServer server({.fault = [&](const GoogleRequest& request) -> GoogleFault {
    if (!begins(request)) return {};
    return {.kind = Kind::kAnswer,
            .headers = {{"Location", other.endpoint() + "/upload/storage/v1/b/bucket/o?upload_id=hidden"}}};
  }});
  server.put("bucket", "other", "");
  RemoteStorage storage(options_of(server));
  EXPECT_TRUE(write_object(storage, "gs://bucket/a", content_of(3 * kChunk), kChunks));
  ASSERT_FALSE(other.requests().empty());
  for (const GoogleRequest& request : other.requests()) EXPECT_FALSE(request.headers.contains("authorization"));
}

// Any number of faults, at any request.
TEST(GcsUploadFaults, DrawnScriptsEndWithAWholeObjectOrWithNone) {
  size_t num_errors = 0;
  for (unsigned seed = 0; seed < 100; seed += test::kStride) {
    std::mt19937 random(seed);
    int faults_left = 12;
    Fault drawn;  // of the request whose head was read
    std::atomic<size_t> begun_in_vain = 0;
    GoogleServer server({.fault = [&](const GoogleRequest&) { return drawn.after; },
                         .upload_fault =
                             [&](const GoogleRequest& request) {
                               drawn = {};
                               const bool is_faulty = is_upload(request) && request.method != "DELETE" &&
                                                      random() % 3 == 0 && faults_left-- > 0;
                               if (is_faulty) drawn = passing_faults()[random() % passing_faults().size()];
                               if (is_faulty && random() % 12 == 0) {
                                 drawn = {.after = {.kind = Kind::kAnswer, .status = 403}};
                               }
                               if (begins(request) && drawn.after.kind == Kind::kLoseAnswer) ++begun_in_vain;
                               return drawn.before;
                             }});
    const bool is_there = seed % 4 == 0;
    server.put("bucket", is_there ? "a" : "other", "before");
    OutputOptions options = kChunks;
    options.if_absent = seed % 3 == 0;
    const std::string content = content_of(std::mt19937(seed + 1000)() % (4 * kChunk));
    RemoteStorage storage(options_of(server));
    const auto error = write_object(storage, "gs://bucket/a", content, options);
    const std::optional<std::string> found = server.content("bucket", "a");
    if (error) {
      ++num_errors;
      EXPECT_EQ(found, is_there ? std::optional<std::string>("before") : std::nullopt) << seed << error->to_string();
    } else {
      EXPECT_TRUE(found == content) << seed;
      EXPECT_FALSE(is_there && options.if_absent) << seed;
    }
    EXPECT_LE(server.num_sessions(), begun_in_vain) << seed;
  }
  EXPECT_LT(num_errors, 60 / test::kStride);
}

}  // namespace
}  // namespace millrace::gcs_upload_faults_test
