#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/remote/gcs_store.h"
#include "millrace/formats/storage/remote/google_error.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "tests/formats/storage/remote/fetch.h"
#include "tests/formats/storage/remote/google_client.h"
#include "tests/formats/storage/remote/google_server.h"

namespace millrace::gcs_storage_test {
namespace {

using test::content_of;
using test::fetch;
using test::Fetched;
using test::google_options;
using test::GoogleFault;
using test::GoogleRequest;
using test::GoogleServer;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Kind = GoogleFault::Kind;
using OutcomeKind = StoreOutcome::Kind;

RemoteOptions anonymous_of(const GoogleServer& server) {
  RemoteOptions options = google_options(server);
  options.gcs.credentials.anonymous = true;
  return options;
}

std::string error_of(const RemoteOptions& options, const std::string& url) {
  RemoteStorage storage(options);
  const Fetched fetched = fetch(storage, url);
  if (!fetched.error) return "no error";
  EXPECT_EQ(fetched.error->shard, url);
  EXPECT_THAT(fetched.error->to_string(), Not(HasSubstr("secret")));
  return fetched.error->message;
}

std::vector<GoogleRequest> downloads(const GoogleServer& server) {
  std::vector<GoogleRequest> found;
  for (GoogleRequest& request : server.requests()) {
    if (request.target.find("alt=media") != std::string::npos) found.push_back(std::move(request));
  }
  return found;
}

TEST(GcsStorage, ReadsAnObjectOfOneGeneration) {
  GoogleServer server;
  const std::string key = "dir/a b?%+&\xc3\xbc.bin";
  const std::string generation = server.put("bucket", key, content_of(500'000));
  RemoteStorage storage(google_options(server));
  const Fetched fetched = fetch(storage, "gs://bucket/" + key);
  ASSERT_FALSE(fetched.error) << fetched.error->to_string();
  EXPECT_TRUE(fetched.bytes == content_of(500'000));
  const std::string path = "/storage/v1/b/bucket/o/dir%2Fa%20b%3F%25%2B%26%C3%BC.bin?alt=media";
  const std::vector<GoogleRequest> requests = downloads(server);
  ASSERT_GE(requests.size(), 5U);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].target,
              i == 0 ? path : fmt::format("{0}&generation={1}&ifGenerationMatch={1}", path, generation));
    EXPECT_EQ(requests[i].headers.at("authorization"), "Bearer ya29.secret-1");
    EXPECT_EQ(requests[i].headers.at("accept-encoding"), "gzip");
  }
}

TEST(GcsStorage, OpensSmallAndEmptyObjectsWithOneRequest) {
  GoogleServer server({.is_public = true});
  for (const size_t bytes : {0, 1, 65535, 65536}) {
    server.put("bucket", "a", content_of(bytes));
    const size_t before = server.requests().size();
    RemoteStorage storage(anonymous_of(server));
    const Fetched fetched = fetch(storage, "gs://bucket/a");
    ASSERT_FALSE(fetched.error) << fetched.error->to_string();
    EXPECT_EQ(fetched.bytes, content_of(bytes));
    EXPECT_EQ(server.requests().size() - before, 1U);
    EXPECT_FALSE(server.requests().back().headers.contains("authorization"));
  }
}

TEST(GcsStorage, ListsAPatternAndReadsWhatItFoundWithoutAskingForItsVersion) {
  GoogleServer server({.is_public = true});
  for (const char* key : {"a", "train/0/part-0", "train/0/part-1", "train/0/x", "train/1/part-0", "train/1/", "z"}) {
    server.put("bucket", key, content_of(100'000));
  }
  RemoteStorage storage(anonymous_of(server));
  const std::vector<std::string> urls = storage.glob("gs://bucket/train/*/part-*");
  EXPECT_THAT(urls,
              ElementsAre("gs://bucket/train/0/part-0", "gs://bucket/train/0/part-1", "gs://bucket/train/1/part-0"));
  const Fetched fetched = fetch(storage, urls[1]);
  EXPECT_TRUE(fetched.bytes == content_of(100'000));
  for (const GoogleRequest& request : downloads(server)) EXPECT_THAT(request.target, HasSubstr("&generation=17"));
  EXPECT_THAT(storage.glob("gs://bucket/nothing-*"), IsEmpty());
}

TEST(GcsStorage, NamesBothVersionsOfAnObjectThatChanges) {
  GoogleServer* place = nullptr;
  std::string changed;
  GoogleServer server({.fault =
                           [&](const GoogleRequest& request) {
                             if (request.number == 2) changed = place->put("bucket", "a", content_of(400'000));
                             return GoogleFault();
                           },
                       .is_public = true});
  place = &server;
  const std::string generation = server.put("bucket", "a", content_of(500'000));
  const std::string error = error_of(anonymous_of(server), "gs://bucket/a");
  EXPECT_EQ(error, fmt::format("cannot read it: it was changed while it was read: was generation {}, 500000 bytes, is "
                               "generation {}, 400000 bytes (after 2 attempts); asked of {}, anonymous: as the options "
                               "say",
                               generation, changed, server.endpoint()));
}

TEST(GcsStorage, SaysThatAnObjectWhichItReadsIsNoLongerThere) {
  GoogleServer* place = nullptr;
  GoogleServer server({.fault =
                           [&](const GoogleRequest& request) {
                             if (request.number == 2) place->remove("bucket", "a");
                             return GoogleFault();
                           },
                       .is_public = true});
  place = &server;
  const std::string generation = server.put("bucket", "a", content_of(500'000));
  EXPECT_THAT(error_of(anonymous_of(server), "gs://bucket/a"),
              HasSubstr(fmt::format("was generation {}, 500000 bytes, is no longer there", generation)));
}

TEST(GcsStorage, SaysWhatIsWrong) {
  GoogleServer server;
  server.put("bucket", "a", "1");
  const std::string asked =
      fmt::format("; asked of {}, credentials: metadata server {}", server.endpoint(), server.host());
  EXPECT_EQ(error_of(google_options(server), "gs://bucket/b"),
            "cannot read it: status 404: No such object: bucket/b" + asked);
  EXPECT_EQ(error_of(google_options(server), "gs://another/b"),
            "cannot read it: status 404 (notFound): The specified bucket does not exist." + asked);
  EXPECT_EQ(error_of(anonymous_of(server), "gs://bucket/a"),
            "cannot read it: status 401 (required): Anonymous caller does not have storage.objects.get access to the "
            "object. (after 2 attempts); asked of " +
                server.endpoint() + ", anonymous: as the options say");
  EXPECT_EQ(error_of(google_options(server), "gs://bucket"), "'gs://bucket' names no object");
  EXPECT_THAT(error_of(google_options(server), "gs://Bucket/a"), HasSubstr("no bucket has the name 'Bucket'"));
  RemoteOptions wrong = google_options(server);
  wrong.gcs.endpoint = "ftp://example.org";
  EXPECT_EQ(error_of(wrong, "gs://bucket/a"),
            "the endpoint of Google Cloud Storage is no URL of http or https: 'ftp://example.org'");
}

// The server forgets a token in mid-run, and repeats it in its answer.
TEST(GcsStorage, AsksForAnotherTokenWhereOneIsRefused) {
  for (const bool for_ever : {false, true}) {
    std::atomic<int> refused = 0;
    GoogleServer server({.fault = [&](const GoogleRequest& request) {
      const auto field = request.headers.find("authorization");
      const bool is_first = field != request.headers.end() && (for_ever || field->second == "Bearer ya29.secret-1");
      if (!is_first || request.number < 3) return GoogleFault();
      ++refused;
      return GoogleFault{.kind = Kind::kAnswer, .status = 401, .body = "no such token: " + field->second};
    }});
    server.put("bucket", "a", content_of(500'000));
    if (for_ever) {
      EXPECT_THAT(error_of(google_options(server), "gs://bucket/a"),
                  AllOf(HasSubstr("status 401: no such token: Bearer ..."), HasSubstr("credentials: metadata server")));
    } else {
      RemoteStorage storage(google_options(server));
      const Fetched fetched = fetch(storage, "gs://bucket/a");
      ASSERT_FALSE(fetched.error) << fetched.error->to_string();
      EXPECT_TRUE(fetched.bytes == content_of(500'000));
    }
    EXPECT_GE(refused, 1);
  }
}

TEST(GcsStorage, GetsOverWhatAServerDoesWrong) {
  for (const GoogleFault& fault :
       {GoogleFault{.kind = Kind::kReset}, GoogleFault{.kind = Kind::kResetInBody},
        GoogleFault{.kind = Kind::kCloseInBody}, GoogleFault{.kind = Kind::kSilentClose},
        GoogleFault{.kind = Kind::kChunked}, GoogleFault{.kind = Kind::kPartAsWhole},
        GoogleFault{.kind = Kind::kAnswer, .status = 503},
        GoogleFault{.kind = Kind::kAnswer,
        .status = 403,
        .body = R"({"error": {"code": 403, "errors": [{"reason": "rateLimitExceeded"}]}})"}}) {
    GoogleServer server(
        {.fault = [&](const GoogleRequest& request) { return request.number % 3 == 0 ? fault : GoogleFault(); },
         .is_public = true});
    server.put("bucket", "a", content_of(300'000));
    RemoteStorage storage(anonymous_of(server));
    EXPECT_THAT(storage.glob("gs://bucket/*"), ElementsAre("gs://bucket/a"));
    const Fetched fetched = fetch(storage, "gs://bucket/a");
    ASSERT_FALSE(fetched.error) << fetched.error->to_string();
    EXPECT_TRUE(fetched.bytes == content_of(300'000));
  }
}

TEST(GcsStorage, LooksForNoTokenForAnEndpointOfOthers) {
  GoogleServer server({.is_public = true});
  server.put("bucket", "a", "1");
  RemoteOptions options = google_options(server);
  options.gcs.credentials.is_emulator.reset();
  EXPECT_EQ(error_of(options, "gs://bucket/a"), "no error");
  for (const GoogleRequest& request : server.requests()) EXPECT_FALSE(request.headers.contains("authorization"));
}

TEST(GcsStorage, SaysWhoPays) {
  GoogleServer server;
  server.put("bucket", "a", "1");
  RemoteOptions options = google_options(server);
  options.environment = [host = server.host()](std::string_view name) -> std::optional<std::string> {
    if (name == "GCE_METADATA_HOST") return host;
    return name == "GOOGLE_CLOUD_QUOTA_PROJECT" ? std::optional<std::string>("quota") : std::nullopt;
  };
  EXPECT_EQ(error_of(options, "gs://bucket/a"), "no error");
  EXPECT_EQ(downloads(server).back().headers.at("x-goog-user-project"), "quota");
  options.gcs.user_project = "pays";
  EXPECT_EQ(error_of(options, "gs://bucket/a"), "no error");
  EXPECT_THAT(downloads(server).back().target, HasSubstr("&userProject=pays"));
  EXPECT_FALSE(downloads(server).back().headers.contains("x-goog-user-project"));
}

TEST(GcsStorage, GoesToTheEmulatorOfTheEnvironment) {
  GoogleServer server({.is_public = true});
  server.put("bucket", "a", "abc");
  RemoteOptions options = google_options(server);
  options.gcs.endpoint = "";
  options.environment = [host = server.host()](std::string_view name) {
    return name == "STORAGE_EMULATOR_HOST" ? std::optional(host) : std::nullopt;
  };
  RemoteStorage storage(options);
  EXPECT_EQ(fetch(storage, "gs://bucket/a").bytes, "abc");
  EXPECT_EQ(server.requests().size(), 1U) << "and nobody was asked for credentials";
}

HttpResponse answered(int status, std::string body = "") {
  return {.head = {.status = status}, .body = std::move(body)};
}

TEST(GcsOutcome, SaysWhatAskingAgainWouldBring) {
  const ObjectVersion pin{.generation = "17", .size = 5};
  for (const int status : {408, 429, 500, 502, 503, 504, 599}) {
    EXPECT_EQ(judge_gcs(answered(status), pin).kind, OutcomeKind::kBusy) << status;
  }
  for (const int status : {302, 304, 400, 401, 403, 410, 416}) {
    EXPECT_EQ(judge_gcs(answered(status), pin).kind, OutcomeKind::kFinal) << status;
  }
  EXPECT_EQ(judge_gcs(answered(404), {}).kind, OutcomeKind::kNotFound);
  EXPECT_EQ(judge_gcs(answered(404), pin).kind, OutcomeKind::kChanged);
  EXPECT_EQ(judge_gcs(answered(404), ObjectVersion{.size = 5}).kind, OutcomeKind::kNotFound);
  EXPECT_EQ(judge_gcs(answered(404, "The specified bucket does not exist."), pin).kind, OutcomeKind::kFinal);
  EXPECT_EQ(judge_gcs(answered(412), pin).kind, OutcomeKind::kChanged);
  EXPECT_EQ(judge_gcs(answered(412), {}).kind, OutcomeKind::kFinal);
  const auto limited = [](const char* reason) {
    return answered(403, fmt::format(R"({{"error": {{"code": 403, "errors": [{{"reason": "{}"}}]}}}})", reason));
  };
  EXPECT_EQ(judge_gcs(limited("rateLimitExceeded"), {}).kind, OutcomeKind::kBusy);
  EXPECT_EQ(judge_gcs(limited("userRateLimitExceeded"), {}).kind, OutcomeKind::kBusy);
  EXPECT_EQ(judge_gcs(limited("forbidden"), {}).kind, OutcomeKind::kFinal);
  HttpResponse refused = answered(403, "no, key-1");
  refused.head.headers.add("X-GUploader-UploadID", "AB\tcd");
  EXPECT_EQ(judge_gcs(refused, {}, {"key-1"}).text, "status 403: no, ... (request AB\\tcd)");
}

TEST(GoogleError, IsReadFromEachFormThatBodiesHave) {
  // https://cloud.google.com/storage/docs/json_api/v1/status-codes, RFC 6749, 5.2, and plain text.
  const struct {
    std::string body;
    std::string text;
  } cases[] = {
      {R"({"error": {"code": 404, "message": "Not\nFound", "errors": [{"reason": "notFound", "message": "m"}]}})",
       "status 400 (notFound): Not\\nFound"},
      {R"({"error": {"message": "m", "status": "NOT_FOUND"}})", "status 400 (NOT_FOUND): m"},
      {R"({"error": "invalid_grant", "error_description": "Bad"})", "status 400 (invalid_grant): Bad"},
      {R"({"error": "invalid_scope"})", "status 400 (invalid_scope)"},
      {R"({"error": {"errors": [5], "message": 7}})", "status 400"},
      {R"({"error": 5})", "status 400: {\"error\": 5}"},
      {R"({"error": [], "x": )", "status 400: {\"error\": [], \"x\": "},
      {"No such object: a/b\r\n", "status 400: No such object: a/b"},
      {"", "status 400"},
      {std::string(5000, 'x'), "status 400: " + std::string(300, 'x') + "..."},
      {std::string(100'000, '['), "status 400: " + std::string(300, '[') + "..."},
  };
  for (const auto& c : cases) EXPECT_EQ(parse_google_error(400, c.body).to_string(), c.text);
}

TEST(ObjectVersion, IsOfOneGenerationWhateverItsTag) {
  const ObjectVersion version{.tag = "a", .generation = "1", .size = 5};
  EXPECT_TRUE(version.may_be({.tag = "b", .generation = "1", .last_modified = "now", .size = 5}));
  EXPECT_FALSE(version.may_be({.tag = "a", .generation = "2", .size = 5}));
  EXPECT_FALSE(version.may_be({.tag = "a", .generation = "1", .size = 6}));
  // Where one of them has none, it is the tag that tells.
  EXPECT_FALSE(version.may_be({.tag = "b", .size = 5}));
  EXPECT_TRUE(version.may_be({.tag = "a", .size = 5}));
}

}  // namespace
}  // namespace millrace::gcs_storage_test
