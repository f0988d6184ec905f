#include <algorithm>
#include <atomic>
#include <chrono>
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

namespace millrace::s3_correction_test {
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
using testing::IsEmpty;
using testing::Not;
using Kind = ServedFault::Kind;

// One refused request, then the right region for all of the bucket.
TEST(S3Correction, CorrectsAWrongRegionOnce) {
  S3ServiceOptions s3 = marked_service();
  s3.region = "eu-west-1";
  ObjectServer server({.s3 = s3});
  server.put("bucket/a", content_of(300'000));
  RemoteStorage storage(s3_options(server));
  EXPECT_TRUE(fetch(storage, "s3://bucket/a").bytes == content_of(300'000));
  const auto requests = server.requests();
  EXPECT_THAT(requests.at(0).headers.at("authorization"), HasSubstr("/us-east-1/"));
  for (size_t i = 1; i < requests.size(); ++i) {
    EXPECT_THAT(requests[i].headers.at("authorization"), HasSubstr("/eu-west-1/"));
  }
}

TEST(S3Correction, FollowsARedirectToTheRegionOfABucket) {
  for (const int status : {301, 400}) {
    std::atomic<int> answers = 0;
    S3ServiceOptions s3 = marked_service();
    s3.region = "eu-west-1";
    ObjectServer server({.fault =
                             [&](const ServedRequest&) {
                               if (answers++ > 0) return ServedFault();
                               ServedFault fault = s3_fault(status, "PermanentRedirect");
                               fault.headers["x-amz-bucket-region"] = "eu-west-1";
                               return fault;
                             },
                         .s3 = s3});
    server.put("bucket/a", "abc");
    RemoteStorage storage(s3_options(server));
    EXPECT_EQ(fetch(storage, "s3://bucket/a").bytes, "abc");
  }
}

TEST(S3Correction, DoesNotGoInCirclesBetweenRegions) {
  std::atomic<int> answers = 0;
  ObjectServer server({.fault =
                           [&](const ServedRequest&) {
                             ServedFault fault = s3_fault(301, "PermanentRedirect");
                             fault.headers["x-amz-bucket-region"] = fmt::format("region-{}", ++answers);
                             return fault;
                           },
                       .s3 = marked_service()});
  EXPECT_THAT(error_of(s3_options(server), "s3://bucket/a"), HasSubstr("status 301, PermanentRedirect"));
  EXPECT_EQ(server.requests().size(), 2U);
}

// A region becomes a part of the name of a host.
TEST(S3Correction, BelievesNoRegionThatIsNone) {
  ObjectServer server({.fault =
                           [&](const ServedRequest&) {
                             ServedFault fault = s3_fault(301, "PermanentRedirect");
                             fault.headers["x-amz-bucket-region"] = "evil.example/";
                             return fault;
                           },
                       .s3 = marked_service()});
  EXPECT_THAT(error_of(s3_options(server), "s3://bucket/a"), HasSubstr("status 301, PermanentRedirect"));
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST(S3Correction, AsksForTheRegionOfABucketOnce) {
  S3ServiceOptions s3 = marked_service();
  s3.region = "eu-west-1";
  ObjectServer server({.fault =
                           [](const ServedRequest& request) {
                             return request.number == 0 ? ServedFault{.kind = Kind::kStatus, .status = 503}
                                                        : ServedFault();
                           },
                       .s3 = s3});
  server.put("bucket/a", content_of(300'000));
  RemoteOptions options = s3_options(server);
  options.s3.finds_region = true;
  RemoteStorage storage(options);
  EXPECT_TRUE(fetch(storage, "s3://bucket/a").bytes == content_of(300'000));
  const auto requests = server.requests();
  EXPECT_EQ(std::ranges::count(requests, "HEAD", &ServedRequest::method), 2) << "one more than was refused";
  for (const ServedRequest& request : requests)
    EXPECT_EQ(request.headers.count("authorization"), request.method == "GET");
}

TEST(S3Correction, SaysThatNoRegionIsFound) {
  ObjectServer server({.fault = [](const ServedRequest&) { return ServedFault{.kind = Kind::kStatus, .status = 400}; },
                       .s3 = marked_service()});
  RemoteOptions options = s3_options(server);
  options.s3.finds_region = true;
  EXPECT_THAT(error_of(options, "s3://bucket/a"),
              AllOf(HasSubstr("the region of bucket 'bucket' cannot be found: status 400"), HasSubstr("AWS_REGION")));
}

// Credentials that end in the middle are asked for anew; each question puts up with that once.
TEST(S3Correction, RenewsCredentialsThatHaveEnded) {
  S3ServiceOptions s3 = marked_service();
  s3.ended_token = [](const ServedRequest& request) { return request.number >= 3 ? "marked-1" : ""; };
  ObjectServer server({.s3 = s3});
  server.put("bucket/a", content_of(700'000));
  RemoteOptions options = s3_options(server);
  options.s3.credentials.reset();
  std::atomic<int> fetches = 0;
  options.s3.fetch_credentials = [&](const std::function<void(Refreshed<AwsCredentials>::Fetched)>& got) {
    auto fresh = std::make_shared<AwsCredentials>(marked_credentials());
    fresh->session_token = fmt::format("marked-{}", ++fetches);
    got({.value = fresh});
  };
  RemoteStorage storage(options);
  const Fetched fetched = fetch(storage, "s3://bucket/a");
  ASSERT_FALSE(fetched.error) << fetched.error->to_string();
  EXPECT_TRUE(fetched.bytes == content_of(700'000));
  EXPECT_EQ(fetches, 2);
}

TEST(S3Correction, GivesUpOnCredentialsThatStayRefused) {
  S3ServiceOptions s3 = marked_service();
  s3.ended_token = [](const ServedRequest& request) { return request.headers.at("x-amz-security-token"); };
  ObjectServer server({.s3 = s3});
  server.put("bucket/a", "abc");
  EXPECT_THAT(error_of(s3_options(server), "s3://bucket/a"),
              AllOf(HasSubstr("status 400, ExpiredToken"), HasSubstr("credentials: the options")));
  EXPECT_EQ(server.requests().size(), 2U);
}

TEST(S3Correction, SaysWhyThereAreNoCredentials) {
  ObjectServer server({.s3 = marked_service()});
  RemoteOptions options = s3_options(server);
  options.s3.credentials.reset();
  options.s3.fetch_credentials = [](const std::function<void(Refreshed<AwsCredentials>::Fetched)>& got) {
    got({.error = "the profile 'dev' is broken"});
  };
  EXPECT_THAT(error_of(options, "s3://bucket/a"), HasSubstr("the profile 'dev' is broken"));
  EXPECT_THAT(error_of_glob(options, "s3://bucket/*"), HasSubstr("the profile 'dev' is broken"));
  EXPECT_THAT(server.requests(), IsEmpty());
}

// Whoever waits for credentials that never come is told in the end, and can be cancelled before.
TEST(S3Correction, DoesNotWaitForCredentialsForEver) {
  ObjectServer server({.s3 = marked_service()});
  RemoteOptions options = s3_options(server);
  options.retries.give_up_after = std::chrono::milliseconds(50);
  options.s3.credentials.reset();
  std::function<void(Refreshed<AwsCredentials>::Fetched)> late;
  options.s3.fetch_credentials = [&](const std::function<void(Refreshed<AwsCredentials>::Fetched)>& got) {
    late = got;
  };
  EXPECT_THAT(error_of(options, "s3://bucket/a"), HasSubstr("did not come in time"));
  late({.value = std::make_shared<AwsCredentials>(marked_credentials())});
  EXPECT_THAT(server.requests(), IsEmpty()) << "nobody waits any more";
}

TEST(S3Correction, IsCancelledWhileItWaitsForCredentials) {
  ObjectServer server({.s3 = marked_service()});
  server.put("bucket/a", "abc");
  RemoteOptions options = s3_options(server);
  options.s3.credentials.reset();
  std::atomic<int> fetches = 0;
  std::function<void(Refreshed<AwsCredentials>::Fetched)> late;
  options.s3.fetch_credentials = [&](const std::function<void(Refreshed<AwsCredentials>::Fetched)>& got) {
    if (fetches++ > 0) {
      late = got;
      return;
    }
    got({.value = std::make_shared<AwsCredentials>(marked_credentials()), .ends = std::chrono::system_clock::now()});
  };
  RemoteStorage storage(options);
  EXPECT_THAT(storage.glob("s3://bucket/*"), ElementsAre("s3://bucket/a"));
  const auto sink = std::make_shared<ReadAndOpenSink>();
  storage.open("s3://bucket/a", sink);
  ASSERT_TRUE(sink->flag.wait());
  std::vector<std::byte> room(10);
  sink->open.file->read(0, room, sink);
  sink->open.file->cancel();
  ASSERT_TRUE(sink->flag.wait());
  EXPECT_THAT(sink->read.error.error.message, HasSubstr("it was cancelled"));
  late({.value = std::make_shared<AwsCredentials>(marked_credentials())});
  EXPECT_EQ(server.requests().size(), 1U) << "the listing";
}

TEST(S3Correction, GoesByTheClockOfTheStore) {
  S3ServiceOptions s3 = marked_service();
  s3.clock_ahead = std::chrono::hours(5);
  ObjectServer server({.s3 = s3});
  server.put("bucket/a", content_of(300'000));
  RemoteStorage storage(s3_options(server));
  const Fetched fetched = fetch(storage, "s3://bucket/a");
  ASSERT_FALSE(fetched.error) << fetched.error->to_string();
  EXPECT_TRUE(fetched.bytes == content_of(300'000));
  EXPECT_LE(server.requests().size(), 6U) << "one is refused, or those that were in flight with it";
}

// From one host to another, as stores that spread objects over several do: each request signed for where it goes.
TEST(S3Correction, FollowsRedirectsToHostsThatMayKnow) {
  ObjectServer target({.s3 = marked_service()});
  target.put("bucket/a b", content_of(300'000));
  std::string path;
  ObjectServer server({.fault =
                           [&](const ServedRequest& request) {
                             ServedFault fault = s3_fault(307, "TemporaryRedirect");
                             std::string to = target.url("") + request.path.substr(1) + "?pid=a%2Fb";
                             to.replace(to.find("127.0.0.1"), 9, "localhost");
                             fault.headers["Location"] = to;
                             return fault;
                           },
                       .s3 = marked_service()});
  RemoteOptions options = s3_options(server);
  EXPECT_THAT(error_of(options, "s3://bucket/a b"),
              AllOf(HasSubstr("status 307, TemporaryRedirect"), HasSubstr("it leads to http://localhost:"),
                    Not(HasSubstr("pid"))));
  EXPECT_THAT(target.requests(), IsEmpty()) << "a host that nobody named must not see a signature";
  options.s3.redirect_hosts = {"localhost"};
  RemoteStorage storage(options);
  const Fetched fetched = fetch(storage, "s3://bucket/a b");
  ASSERT_FALSE(fetched.error) << fetched.error->to_string();
  EXPECT_TRUE(fetched.bytes == content_of(300'000));
}

TEST(S3Correction, GivesUpOnALoopOfRedirects) {
  ObjectServer server({.fault =
                           [](const ServedRequest& request) {
                             ServedFault fault = s3_fault(307, "TemporaryRedirect");
                             fault.headers["Location"] = request.path;
                             return fault;
                           },
                       .s3 = marked_service()});
  EXPECT_THAT(error_of(s3_options(server), "s3://bucket/a"), HasSubstr("more than 3 redirects"));
  EXPECT_EQ(server.requests().size(), 4U);
}

}  // namespace
}  // namespace millrace::s3_correction_test
