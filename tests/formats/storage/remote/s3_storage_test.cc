#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/remote/remote_storage.h"
#include "tests/formats/storage/remote/fetch.h"
#include "tests/formats/storage/remote/object_server.h"
#include "tests/formats/storage/remote/s3_client.h"
#include "tests/formats/storage/remote/s3_service.h"

namespace millrace::s3_storage_test {
namespace {

using test::content_of;
using test::error_of;
using test::error_of_glob;
using test::fetch;
using test::Fetched;
using test::marked_credentials;
using test::marked_service;
using test::ObjectServer;
using test::ReadAndOpenSink;
using test::s3_fault;
using test::s3_options;
using test::S3ServiceOptions;
using test::ServedFault;
using test::ServedRequest;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Kind = ServedFault::Kind;

const std::vector<std::string> kOddKeys{
    "a b",   "a+b",    "a%20b", "a?b=c&d", "a#b",   "x/../y",    "x/./y", "//x", "x//y", "\xc3\xa4/\xe2\x82\xac",
    "a'b\"", "a<b&c>", "~-_.",  "a\\b",    "a:b@c", "a=b;c,d$!", "%",     "(*)"};

TEST(S3Storage, ReadsKeysOfAllBytes) {
  ObjectServer server({.s3 = marked_service()});
  for (size_t i = 0; i < kOddKeys.size(); ++i) server.put("bucket/" + kOddKeys[i], content_of(100 + i));
  for (const bool path_style : {true, false}) {
    RemoteOptions options = s3_options(server);
    if (!path_style) {
      options.s3.endpoint.replace(options.s3.endpoint.find("127.0.0.1"), 9, "localhost");
      options.s3.path_style = false;
    }
    RemoteStorage storage(options);
    for (size_t i = 0; i < kOddKeys.size(); ++i) {
      const Fetched fetched = fetch(storage, "s3://bucket/" + kOddKeys[i]);
      ASSERT_FALSE(fetched.error) << fetched.error->to_string();
      EXPECT_EQ(fetched.bytes, content_of(100 + i)) << kOddKeys[i];
    }
  }
}

TEST(S3Storage, ReadsAnObjectWithSeveralSignedRequests) {
  ObjectServer server({.s3 = marked_service()});
  server.put("bucket/a", content_of(700'000));
  RemoteStorage storage(s3_options(server));
  const Fetched fetched = fetch(storage, "s3://bucket/a");
  ASSERT_FALSE(fetched.error) << fetched.error->to_string();
  EXPECT_TRUE(fetched.bytes == content_of(700'000));
  for (const ServedRequest& request : server.requests()) {
    EXPECT_EQ(request.headers.at("authorization").find("range"), std::string::npos) << "proxies may change it";
    if (request.number == 0) continue;
    EXPECT_EQ(request.headers.at("if-match"), "\"tag-1\"");
  }
}

// A bucket that is not there is a mistake, not a file that is not there.
TEST(S3Storage, TellsAMissingObjectFromAMissingBucket) {
  ObjectServer server({.s3 = marked_service()});
  server.put("bucket/a", "abc");
  RemoteStorage storage(s3_options(server));
  for (const bool is_bucket : {true, false}) {
    const auto sink = std::make_shared<ReadAndOpenSink>();
    storage.open(is_bucket ? "s3://bucket/b" : "s3://other/b", sink);
    ASSERT_TRUE(sink->flag.wait());
    EXPECT_EQ(sink->open.file, nullptr);
    EXPECT_EQ(sink->open.error.not_found, is_bucket);
  }
}

TEST(S3Storage, SaysWhatIsRefusedAndToWhom) {
  ObjectServer server({.s3 = marked_service()});
  server.put("bucket/a", "abc");
  const RemoteOptions options = s3_options(server);
  const std::string endpoint = options.s3.endpoint.substr(0, options.s3.endpoint.size() - 1);
  EXPECT_EQ(error_of(options, "s3://bucket/b"),
            "cannot read it: status 404, NoSuchKey: It is NoSuchKey & no more (request 4442587FB7D0A2F9); asked of " +
                endpoint + ", region us-east-1, credentials: the options");
  EXPECT_THAT(error_of(options, "s3://other/b"), HasSubstr("status 404, NoSuchBucket: "));
  RemoteOptions wrong = options;
  wrong.s3.credentials->secret_access_key = "marked another";
  EXPECT_THAT(error_of(wrong, "s3://bucket/a"), HasSubstr("status 403, SignatureDoesNotMatch: "));
  wrong.s3.credentials->access_key_id = "AKIAMARKEDKEYANOTHER";
  EXPECT_THAT(error_of(wrong, "s3://bucket/a"), HasSubstr("status 403, InvalidAccessKeyId: "));
  wrong.s3.credentials.reset();
  EXPECT_THAT(error_of(wrong, "s3://bucket/a"),
              AllOf(HasSubstr("status 403, AccessDenied: "),
                    HasSubstr("unsigned, without credentials: environment: AWS_ACCESS_KEY_ID is not set, ")));
  wrong.s3.anonymous = true;
  EXPECT_THAT(error_of(wrong, "s3://bucket/a"), HasSubstr("region us-east-1, unsigned"));
  EXPECT_THAT(error_of(options, "s3://bucket"), HasSubstr("'s3://bucket' names no object"));
  EXPECT_THAT(error_of(options, "s3://evil.example#/a"), HasSubstr("names no bucket"));
  wrong.s3.endpoint = "localhost:9000";
  EXPECT_THAT(error_of(wrong, "s3://bucket/a"), HasSubstr("the option of the endpoint: 'localhost:9000' is no URL"));
}

// A store that repeats in its errors all that it was sent.
TEST(S3Storage, ShowsNoSecretThatAStoreRepeats) {
  for (const bool in_xml : {true, false}) {
    ObjectServer server({.fault =
                             [&](const ServedRequest& request) {
                               std::string all = "said";
                               for (const char* name : {"authorization", "x-amz-security-token"}) {
                                 all += ' ' + request.headers.at(name);
                               }
                               if (!in_xml) return ServedFault{.kind = Kind::kStatus, .status = 403, .text = all};
                               return s3_fault(403, "AccessDenied" + all);
                             },
                         .s3 = marked_service()});
    const RemoteOptions options = s3_options(server);
    const std::string error = error_of(options, "s3://bucket/a");
    EXPECT_THAT(error, HasSubstr("AWS4-HMAC-SHA256 Credential=.../"));
    const std::string sent = server.requests().at(0).headers.at("authorization");
    EXPECT_THAT(error, Not(HasSubstr(sent.substr(sent.size() - 64, 20))));
    EXPECT_THAT(error_of_glob(options, "s3://bucket/*"), HasSubstr("cannot list it: status 403"));
  }
}

// The same with what is no error, as a page to sign in at, and in fields.
TEST(S3Storage, ShowsNoSecretThatAnswersHaveOutsideOfErrors) {
  std::function<ServedFault(const std::string& sent)> fault;
  ObjectServer server({.fault =
                           [&](const ServedRequest& request) {
                             return fault(request.headers.at("x-amz-security-token") + ' ' +
                                          request.headers.at("authorization"));
                           },
                       .s3 = marked_service()});
  const RemoteOptions options = s3_options(server);
  fault = [](const std::string& sent) {
    return ServedFault{.kind = Kind::kStatus, .status = 200, .text = "<html>" + sent + "</html>"};
  };
  EXPECT_THAT(error_of_glob(options, "s3://bucket/*"),
              HasSubstr("there is no ListBucketResult in '<html>... AWS4-HMAC-SHA256 Credential=.../"));
  fault = [](const std::string& sent) {
    return ServedFault{.kind = Kind::kStatus,
                       .status = 403,
                       .headers = {{"x-amz-request-id", sent}, {"Location", "http://elsewhere.example/" + sent}}};
  };
  EXPECT_THAT(error_of(options, "s3://bucket/a"),
              AllOf(HasSubstr("status 403 (request ... AWS4-HMAC-SHA256 Credential=.../"),
                    HasSubstr("; it leads to http://elsewhere.example/... AWS4-HMAC-SHA256 Credential=.../")));
}

TEST(S3Storage, ReadsPublicBucketsUnsigned) {
  S3ServiceOptions s3 = marked_service();
  s3.allows_anonymous = true;
  ObjectServer server({.s3 = s3});
  server.put("bucket/a", "abc");
  for (const bool by_environment : {true, false}) {
    RemoteOptions options = s3_options(server);
    options.s3.credentials->secret_access_key = "wrong";
    options.s3.anonymous = !by_environment;
    if (by_environment) {
      options.environment = [](std::string_view name) -> std::optional<std::string> {
        if (name == "AWS_NO_SIGN_REQUEST") return "YES";
        return std::nullopt;
      };
    }
    RemoteStorage storage(options);
    EXPECT_EQ(fetch(storage, "s3://bucket/a").bytes, "abc");
    EXPECT_THAT(storage.glob("s3://bucket/*"), ElementsAre("s3://bucket/a"));
  }
  for (const ServedRequest& request : server.requests()) EXPECT_EQ(request.headers.count("authorization"), 0U);
}

TEST(S3Storage, SignsWithWhatTheEnvironmentHas) {
  ObjectServer server({.s3 = marked_service()});
  server.put("bucket/a", "abc");
  RemoteOptions options = s3_options(server);
  options.s3 = {};
  options.environment = [&](std::string_view name) -> std::optional<std::string> {
    if (name == "AWS_ENDPOINT_URL") return server.url("");
    if (name == "AWS_ACCESS_KEY_ID") return marked_credentials().access_key_id;
    if (name == "AWS_SECRET_ACCESS_KEY") return marked_credentials().secret_access_key;
    if (name == "AWS_SESSION_TOKEN") return marked_credentials().session_token;
    return std::nullopt;
  };
  RemoteStorage storage(options);
  EXPECT_EQ(fetch(storage, "s3://bucket/a").bytes, "abc");
  EXPECT_THAT(error_of(options, "s3://bucket/b"), HasSubstr("credentials: environment"));
}

TEST(S3Storage, PaysForRequestsWhereItIsTold) {
  S3ServiceOptions s3 = marked_service();
  s3.requester_pays = true;
  ObjectServer server({.s3 = s3});
  server.put("bucket/a", "abc");
  RemoteOptions options = s3_options(server);
  EXPECT_THAT(error_of(options, "s3://bucket/a"), HasSubstr("status 403"));
  options.s3.requester_pays = true;
  RemoteStorage storage(options);
  EXPECT_EQ(fetch(storage, "s3://bucket/a").bytes, "abc");
}

TEST(S3Storage, AsksABusyStoreAgain) {
  for (const auto& [status, code] : std::vector<std::pair<int, std::string>>{
           {503, "SlowDown"}, {500, "InternalError"}, {400, "RequestTimeout"}, {409, "OperationAborted"}}) {
    ObjectServer server(
        {.fault = [said = s3_fault(status, code)](
                      const ServedRequest& request) { return request.number % 3 != 2 ? said : ServedFault(); },
         .s3 = marked_service()});
    server.put("bucket/a", content_of(200'000));
    RemoteStorage storage(s3_options(server));
    EXPECT_THAT(storage.glob("s3://bucket/*"), ElementsAre("s3://bucket/a")) << code;
    const Fetched fetched = fetch(storage, "s3://bucket/a");
    ASSERT_FALSE(fetched.error) << fetched.error->to_string();
    EXPECT_TRUE(fetched.bytes == content_of(200'000));
  }
}

// The answer is an object's in form only.
TEST(S3Storage, KnowsAnObjectThatIsEmpty) {
  for (const bool has_content_range : {true, false}) {
    ObjectServer server(
        {.fault =
             [&](const ServedRequest&) { return has_content_range ? ServedFault() : s3_fault(416, "InvalidRange"); },
         .s3 = marked_service()});
    server.put("bucket/a", "");
    RemoteStorage storage(s3_options(server));
    const Fetched fetched = fetch(storage, "s3://bucket/a");
    EXPECT_FALSE(fetched.error);
    EXPECT_EQ(fetched.bytes, "");
  }
}

TEST(S3Storage, OpensWhatWasListedWithoutARequest) {
  ObjectServer server({.s3 = marked_service()});
  server.put("bucket/a", content_of(150'000));
  RemoteStorage storage(s3_options(server));
  EXPECT_THAT(storage.glob("s3://bucket/*"), ElementsAre("s3://bucket/a"));
  EXPECT_TRUE(fetch(storage, "s3://bucket/a").bytes == content_of(150'000));
  const auto requests = server.requests();
  for (size_t i = 1; i < requests.size(); ++i) EXPECT_EQ(requests[i].headers.at("if-match"), "\"tag-1\"");
  // Two reads of 100,000 bytes, and none to open it.
  EXPECT_EQ(requests.size(), 3U);
}

TEST(S3Storage, NamesBothVersionsOfAnObjectThatChangesAfterItWasListed) {
  ObjectServer server({.s3 = marked_service()});
  server.put("bucket/a", content_of(150'000));
  RemoteStorage storage(s3_options(server));
  EXPECT_THAT(storage.glob("s3://bucket/*"), ElementsAre("s3://bucket/a"));
  server.put("bucket/a", content_of(150'001));
  const Fetched changed = fetch(storage, "s3://bucket/a");
  ASSERT_TRUE(changed.error);
  EXPECT_THAT(changed.error->message,
              HasSubstr("was changed while it was read: was etag tag-1, 150000 bytes, is etag tag-2, 150001 bytes"));
  // The listing does not hold any more.
  EXPECT_TRUE(fetch(storage, "s3://bucket/a").bytes == content_of(150'001));
}

}  // namespace
}  // namespace millrace::s3_storage_test
