#include "millrace/formats/storage/remote/s3_upload.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/storage/remote/s3_signature.h"
#include "millrace/formats/storage/remote/s3_store.h"
#include "tests/formats/storage/remote/fetch.h"
#include "tests/formats/storage/remote/manual_http_clock.h"
#include "tests/formats/storage/remote/object_server.h"
#include "tests/formats/storage/remote/s3_client.h"
#include "tests/formats/storage/remote/s3_service.h"
#include "tests/formats/storage/remote/upload_client.h"
#include "tests/support/forked_child.h"
#include "tests/support/sanitized.h"

namespace millrace::s3_upload_test {
namespace {

using test::content_of;
using test::error_of_step;
using test::fetch;
using test::marked_credentials;
using test::marked_service;
using test::ObjectServer;
using test::s3_options;
using test::S3ServiceOptions;
using test::ServedFault;
using test::ServedRequest;
using test::write_in_pieces;
using test::write_object;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr size_t kPart = 100'000;
const OutputOptions kParts{.part_bytes = kPart, .in_flight = 3};

TEST(S3Upload, WritesObjectsOfAllSizes) {
  ObjectServer server({.s3 = marked_service()});
  server.put("bucket/other", "");
  RemoteStorage storage(s3_options(server));
  for (const size_t size : {size_t{0}, size_t{1}, kPart - 1, kPart, kPart + 1, 2 * kPart, 5 * kPart + 7}) {
    const size_t before = server.requests().size();
    const auto error = write_object(storage, "s3://bucket/a b+%?/\xc3\xbc", content_of(size), kParts);
    ASSERT_FALSE(error) << error->to_string();
    EXPECT_EQ(server.content("bucket/a b+%?/\xc3\xbc"), content_of(size)) << size;
    const size_t parts = (size + kPart - 1) / kPart;
    EXPECT_EQ(server.requests().size() - before, parts <= 1 ? 1 : parts + 2) << size;
  }
  EXPECT_THAT(server.unfinished_uploads(), IsEmpty());
}

// Nothing guards a body on its way but its hash, where there is no TLS; the server refuses others.
TEST(S3Upload, SignsWhatItSends) {
  ObjectServer server({.s3 = marked_service()});
  server.put("bucket/other", "");
  RemoteStorage storage(s3_options(server));
  EXPECT_FALSE(write_object(storage, "s3://bucket/a", content_of(3 * kPart), kParts));
  const std::string part = sha256_hex(content_of(3 * kPart).substr(0, kPart));
  EXPECT_EQ(server.requests().at(0).headers.at("x-amz-content-sha256"), kSha256OfNothing);
  EXPECT_EQ(server.requests().at(1).headers.at("x-amz-content-sha256").size(), part.size());
  const auto requests = server.requests();
  EXPECT_TRUE(std::ranges::any_of(
      requests, [&](const ServedRequest& request) { return request.headers.at("x-amz-content-sha256") == part; }));
}

TEST(S3Upload, HashesNothingWhereTlsGuardsIt) {
  const HttpCalls calls{.engine = std::make_shared<HttpEngine>(), .budget = std::make_shared<RetryBudget>()};
  for (const bool is_secure : {true, false}) {
    const S3Options options{.endpoint = is_secure ? "https://host" : "http://host",
                            .credentials = marked_credentials()};
    S3Store store(options, calls, [](std::string_view) { return std::nullopt; });
    PreparedRequest prepared;
    store.call_of_upload({.url = "s3://bucket/a", .id = "id"})
        ->prepare({.method = HttpMethod::kPost, .body = "bytes"},
                  [&](PreparedRequest request) { prepared = std::move(request); });
    const std::string* const hash = prepared.request.headers.find("x-amz-content-sha256");
    ASSERT_NE(hash, nullptr) << prepared.error;
    EXPECT_EQ(*hash, is_secure ? "UNSIGNED-PAYLOAD" : sha256_hex("bytes"));
  }
}

TEST(S3Upload, LeavesTheObjectBeforeUntilItIsCommitted) {
  ObjectServer server({.s3 = marked_service()});
  server.put("bucket/a", "before");
  RemoteStorage storage(s3_options(server));
  const auto file = storage.create("s3://bucket/a", kParts);
  write_in_pieces(*file, content_of(4 * kPart));
  EXPECT_EQ(server.content("bucket/a"), "before");
  file->commit();
  EXPECT_EQ(server.content("bucket/a"), content_of(4 * kPart));
}

TEST(S3Upload, LeavesNothingWithoutACommit) {
  for (const size_t size : {size_t{0}, kPart, 4 * kPart}) {
    ObjectServer server({.s3 = marked_service()});
    server.put("bucket/other", "");
    RemoteStorage storage(s3_options(server));
    {
      const auto file = storage.create("s3://bucket/a", kParts);
      write_in_pieces(*file, content_of(size));
    }
    EXPECT_EQ(server.content("bucket/a"), std::nullopt);
    EXPECT_THAT(server.unfinished_uploads(), IsEmpty());
    if (size <= kPart) {
      EXPECT_THAT(server.requests(), IsEmpty());
    }
  }
}

// As many parts as may be in flight, and the one that is being filled.
TEST(S3Upload, WaitsWhileTheMostPartsAreInFlight) {
  std::atomic<bool> reads = false;
  ObjectServer server({.upload_pace = [&](const ServedRequest&, size_t) { return reads ? size_t{1} << 20 : 0; },
                       .s3 = marked_service()});
  server.put("bucket/other", "");
  RemoteStorage storage(s3_options(server));
  const std::string content = content_of(12 * kPart);
  std::atomic<size_t> written = 0;
  std::thread writing([&] {
    const auto file = storage.create("s3://bucket/a", kParts);
    for (size_t i = 0; i < 12; ++i) {
      file->write(std::string_view(content).substr(i * kPart, kPart));
      ++written;
    }
    file->commit();
  });
  const size_t most_in_flight = static_cast<size_t>(kParts.in_flight);
  while (written < most_in_flight + 1 || server.requests().size() < most_in_flight + 1) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // in which nothing more is to happen
  EXPECT_EQ(written, most_in_flight + 1);
  EXPECT_EQ(server.requests().size(), most_in_flight + 1);
  reads = true;
  writing.join();
  // The end of a request may be noted after the next one has come.
  EXPECT_LE(server.most_in_flight(), most_in_flight + 1);
  EXPECT_EQ(server.content("bucket/a"), content);
}

TEST(S3Upload, WritesOnlyWhereThereIsNoObjectYet) {
  for (const size_t size : {kPart, 3 * kPart}) {
    ObjectServer server({.s3 = marked_service()});
    server.put("bucket/other", "");
    RemoteStorage storage(s3_options(server));
    OutputOptions options = kParts;
    options.if_absent = true;
    EXPECT_FALSE(write_object(storage, "s3://bucket/a", content_of(size), options));
    const auto error = write_object(storage, "s3://bucket/a", content_of(size - 1), options);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, ErrorCode::kIo);
    EXPECT_EQ(error->shard, "s3://bucket/a");
    EXPECT_THAT(error->message, HasSubstr("cannot write it: there is such an object already: status 412, "));
    EXPECT_EQ(server.content("bucket/a"), content_of(size));
    EXPECT_THAT(server.unfinished_uploads(), IsEmpty());
  }
}

TEST(S3Upload, SaysWhatIsRefusedAndToWhom) {
  ObjectServer server({.s3 = marked_service()});
  server.put("bucket/other", "");
  RemoteOptions options = s3_options(server);
  const std::string endpoint = options.s3.endpoint.substr(0, options.s3.endpoint.size() - 1);
  for (const size_t size : {kPart, 3 * kPart}) {
    RemoteStorage storage(options);
    const auto missing = write_object(storage, "s3://nowhere/a", content_of(size), kParts);
    ASSERT_TRUE(missing);
    EXPECT_EQ(missing->message,
              "cannot write it: status 404, NoSuchBucket: It is NoSuchBucket & no more (request 4442587FB7D0A2F9); "
              "asked of " +
                  endpoint + ", region us-east-1, credentials: the options");
  }
  options.s3.credentials->secret_access_key = "marked another";
  RemoteStorage wrong(options);
  const auto refused = write_object(wrong, "s3://bucket/a", content_of(3 * kPart), kParts);
  ASSERT_TRUE(refused);
  EXPECT_THAT(refused->to_string(), AllOf(HasSubstr("status 403, SignatureDoesNotMatch"), Not(HasSubstr("marked"))));
}

TEST(S3Upload, RefusesWhatNamesNoObjectInABucket) {
  ObjectServer server({.s3 = marked_service()});
  RemoteStorage storage(s3_options(server));
  for (const std::string url : {"http://user:word@host/a", "https://host/a"}) {
    const auto error = error_of_step([&] { (void)storage.create(url); });
    ASSERT_TRUE(error) << url;
    EXPECT_EQ(error->code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(error->to_string(), AllOf(HasSubstr("only objects in buckets are written"), Not(HasSubstr("word"))));
  }
  for (const std::string url : {"s3://bucket", "s3://bucket/", "s3://", "gs://bucket/", "gs://b/a"}) {
    const auto error = error_of_step([&] { (void)storage.create(url); });
    ASSERT_TRUE(error) << url;
    EXPECT_EQ(error->code, ErrorCode::kInvalidArgument);
  }
  EXPECT_TRUE(error_of_step([&] { (void)storage.create("s3://bucket/a", {.in_flight = 0}); }));
  EXPECT_THAT(server.requests(), IsEmpty());
}

// Asks the server as it is, unsigned.
class PlainCall final : public StoreCall {
 public:
  explicit PlainCall(std::string url) : url_(std::move(url)) {}
  void prepare(HttpRequest request, Ready ready) override {
    request.url = url_;
    ready({.request = std::move(request)});
  }
  StoreOutcome judge(const HttpResponse&) override { return {.text = "it is refused"}; }

 private:
  const std::string url_;
};

class UnjudgedCall final : public StoreCall {
 public:
  explicit UnjudgedCall(std::string url) : url_(std::move(url)) {}
  void prepare(HttpRequest request, Ready ready) override {
    request.url = url_;
    ready({.request = std::move(request)});
  }
  StoreOutcome judge(const HttpResponse&) override { throw std::bad_alloc(); }

 private:
  const std::string url_;
};

TEST(S3Upload, AnAnswerThatCannotBeJudgedIsNoSuccess) {
  ObjectServer server;
  const HttpCalls calls{.engine = std::make_shared<HttpEngine>(), .budget = std::make_shared<RetryBudget>()};
  const StoreAnswer answer =
      ask_store_and_wait(calls, {.call = std::make_shared<UnjudgedCall>(server.url("missing")),
                                 .accepts = [](const HttpResponse& response) { return response.head.status == 200; }});
  EXPECT_FALSE(answer.is_accepted);
  EXPECT_EQ(answer.error, "status 404");
}

// Nobody would end it.
TEST(S3Upload, APartThatCannotBeStartedIsNotWaitedFor) {
  S3ServiceOptions s3 = marked_service();
  s3.allows_anonymous = true;
  ObjectServer server({.s3 = s3});
  server.put("bucket/other", "");
  const HttpCalls calls{.engine = std::make_shared<HttpEngine>(), .budget = std::make_shared<RetryBudget>()};
  const auto make_call = [&](const std::string& query, const std::vector<std::string>&) {
    if (query.starts_with("partNumber=2")) throw std::bad_alloc();
    return std::make_shared<PlainCall>(server.url("bucket/a") + (query.empty() ? "" : "?" + query));
  };
  S3Upload upload(calls, "s3://bucket/a", make_call, false, std::make_shared<S3Conditions>(), kParts);
  upload.add(std::make_shared<std::string>("part"));
  EXPECT_THROW(upload.add(std::make_shared<std::string>("part")), std::bad_alloc);
  upload.abort();
  EXPECT_THAT(server.unfinished_uploads(), IsEmpty());
}

// It may be a static object.
TEST(S3UploadDeathTest, AnObjectThatOutlivesTheEngineIsNotWaitedFor) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static std::unique_ptr<OutputFile> file;
        // It reads no parts: nothing of it may be at work when the libraries end.
        auto* const server = new ObjectServer(
            {.fault =
                 [](const ServedRequest& request) {
                   const bool is_part = request.method == "PUT";
                   return ServedFault{.kind = is_part ? ServedFault::Kind::kStallUpload : ServedFault::Kind::kNone};
                 },
             .s3 = marked_service()});
        server->put("bucket/other", "");
        RemoteStorage storage(s3_options(*server));
        file = storage.create("s3://bucket/a", kParts);
        write_in_pieces(*file, content_of(4 * kPart));
        while (server->requests().size() < 4) std::this_thread::yield();
        std::exit(7);
      },
      testing::ExitedWithCode(7), "");
}

// 2026-11-28, noon, by the clock of this process; that of the server is the system's.
TEST(S3Upload, AgesAreByTheClockOfTheStore) {
  ObjectServer server({.s3 = marked_service()});
  server.put("bucket/other", "");
  RemoteOptions options = s3_options(server);
  const auto clock = std::make_shared<test::ManualHttpClock>();
  options.engine = std::make_shared<HttpEngine>(HttpEngineOptions{.clock = clock});
  RemoteStorage storage(options);
  const auto file = storage.create("s3://bucket/a", kParts);
  write_in_pieces(*file, content_of(2 * kPart));
  clock->turn(std::chrono::seconds(10));  // more than a rounding
  EXPECT_EQ(storage.unfinished_uploads("s3://bucket/", std::chrono::seconds(0)).size(), 1U);
  EXPECT_THAT(storage.unfinished_uploads("s3://bucket/", std::chrono::hours(1)), IsEmpty());
  EXPECT_THAT(storage.unfinished_uploads("s3://bucket/", std::chrono::seconds::max()), IsEmpty());
}

TEST(S3Upload, RefusesMorePartsThanThereMayBe) {
  S3ServiceOptions s3 = marked_service();
  s3.allows_anonymous = true;
  ObjectServer server({.s3 = s3});
  server.put("bucket/other", "");
  const HttpCalls calls{.engine = std::make_shared<HttpEngine>(), .budget = std::make_shared<RetryBudget>()};
  const auto make_call = [&](const std::string& query, const std::vector<std::string>&) {
    return std::make_shared<PlainCall>(server.url("bucket/a") + (query.empty() ? "" : "?" + query));
  };
  for (const size_t parts : {3, 4}) {
    S3Upload upload(calls, "s3://bucket/a", make_call, false, std::make_shared<S3Conditions>(), kParts, 3);
    const auto error = error_of_step([&] {
      for (size_t i = 1; i < parts; ++i) upload.add(std::make_shared<std::string>("part"));
      upload.finish(std::make_shared<std::string>("end"));
    });
    upload.abort();
    EXPECT_EQ(error.has_value(), parts > 3);
    if (error) {
      EXPECT_THAT(error->message, HasSubstr("it has more than 3 parts of 100000 bytes, which is all that S3 "));
    }
  }
  EXPECT_EQ(server.content("bucket/a"), "partpartend");
  EXPECT_THAT(server.unfinished_uploads(), IsEmpty());
}

// What the process knew of the object before.
TEST(S3Upload, IsReadAfterwardsAndNotWhatWasListedOrOpen) {
  ObjectServer server({.s3 = marked_service()});
  server.put("bucket/a", content_of(150'000));
  RemoteStorage storage(s3_options(server));
  ASSERT_THAT(storage.glob("s3://bucket/*"), ElementsAre("s3://bucket/a"));
  ASSERT_EQ(storage.listed_size("s3://bucket/a"), 150'000U);
  const auto open = std::make_shared<test::ReadAndOpenSink>();
  storage.open("s3://bucket/a", open);
  ASSERT_TRUE(open->flag.wait());
  ASSERT_FALSE(write_object(storage, "s3://bucket/a", content_of(170'000), kParts));
  EXPECT_EQ(storage.listed_size("s3://bucket/a"), std::nullopt);
  EXPECT_EQ(fetch(storage, "s3://bucket/a").bytes, content_of(170'000));
}

// Credentials that end between two parts are asked for anew.
TEST(S3Upload, RenewsCredentialsThatEndInTheMiddle) {
  S3ServiceOptions s3 = marked_service();
  s3.ended_token = [](const ServedRequest& request) { return request.number >= 4 ? "marked-1" : ""; };
  ObjectServer server({.s3 = s3});
  server.put("bucket/other", "");
  RemoteOptions options = s3_options(server);
  options.s3.credentials.reset();
  std::atomic<int> fetches = 0;
  options.s3.fetch_credentials = [&](const std::function<void(Refreshed<AwsCredentials>::Fetched)>& got) {
    auto fresh = std::make_shared<AwsCredentials>(marked_credentials());
    fresh->session_token = fmt::format("marked-{}", ++fetches);
    got({.value = fresh});
  };
  RemoteStorage storage(options);
  const auto error = write_object(storage, "s3://bucket/a", content_of(9 * kPart), kParts);
  ASSERT_FALSE(error) << error->to_string();
  EXPECT_EQ(server.content("bucket/a"), content_of(9 * kPart));
  EXPECT_EQ(fetches, 2);
}

TEST(S3Upload, ListsAndEndsWhatAKilledWriterLeft) {
  if (test::kSanitized) GTEST_SKIP() << "forks with threads: the sanitizer's locks may be taken";
  S3ServiceOptions s3 = marked_service();
  s3.most_uploads = 2;
  ObjectServer server({.s3 = s3});
  server.put("bucket/other", "");
  const std::vector<std::string> keys{"kept", "killed/a b", "killed/c&d", "killed/e", "killed/e"};
  for (const std::string& key : keys) {
    const test::ForkedChild child([&] {
      auto* const storage = new RemoteStorage(s3_options(server));  // they stay until the process is killed
      OutputFile* const file = storage->create("s3://bucket/" + key, kParts).release();
      write_in_pieces(*file, content_of(5 * kPart));
    });
    ASSERT_TRUE(child.did_it());
  }
  EXPECT_EQ(server.content("bucket/killed/e"), std::nullopt);
  RemoteStorage storage(s3_options(server));
  EXPECT_THAT(storage.unfinished_uploads("s3://bucket/", std::chrono::hours(1)), IsEmpty()) << "none is that old";
  const auto left = storage.unfinished_uploads("s3://bucket/killed/", std::chrono::seconds(0));
  std::vector<std::string> urls;
  for (const UnfinishedUpload& upload : left) urls.push_back(upload.url);
  EXPECT_THAT(urls, ElementsAre("s3://bucket/killed/a b", "s3://bucket/killed/c&d", "s3://bucket/killed/e",
                                "s3://bucket/killed/e"));
  for (const UnfinishedUpload& upload : left) {
    storage.abort_upload(upload);
    storage.abort_upload(upload);  // one that is there no more is no error
  }
  EXPECT_THAT(server.unfinished_uploads(), ElementsAre("/bucket/kept"));
}

// Nobody is there who would answer it, and the upload is that of its parent.
TEST(S3Upload, TheChildOfAForkEndsNoUpload) {
  ObjectServer server({.s3 = marked_service()});
  server.put("bucket/other", "");
  RemoteStorage storage(s3_options(server));
  auto file = storage.create("s3://bucket/a", kParts);
  write_in_pieces(*file, content_of(4 * kPart));
  const test::ForkedChild child([&] {
    if (!error_of_step([&] { file->write("more"); }) || !error_of_step([&] { file->commit(); })) std::abort();
    file.reset();
  });
  EXPECT_TRUE(child.did_it());
  file->commit();
  EXPECT_EQ(server.content("bucket/a"), content_of(4 * kPart));
}

TEST(S3Upload, SaysWhyUploadsCannotBeListed) {
  ObjectServer server({.fault =
                           [](const ServedRequest& request) {
                             if (request.method == "DELETE") return test::s3_fault(403, "AccessDenied " + request.path);
                             return ServedFault{.kind = ServedFault::Kind::kStatus,
                                                .status = 200,
                                                .text = "<A>" + request.headers.at("authorization") + "</A>"};
                           },
                       .s3 = marked_service()});
  RemoteStorage storage(s3_options(server));
  const auto list = [&](const std::string& prefix) {
    const auto error = error_of_step([&] { (void)storage.unfinished_uploads(prefix, std::chrono::seconds(0)); });
    return error ? error->to_string() : "no error";
  };
  EXPECT_THAT(list("s3://bucket/"), AllOf(HasSubstr("s3://bucket/"),
                                          HasSubstr("there is no ListMultipartUploadsResult in '<A>AWS4-HMAC-SHA256 "
                                                    "Credential=.../")));
  EXPECT_THAT(list("gs://bucket/"), HasSubstr("end by themselves after a week"));
  EXPECT_THAT(list("http://user:word@host/"), AllOf(HasSubstr("only S3 has uploads"), Not(HasSubstr("word"))));
  const auto error = error_of_step([&] { storage.abort_upload({.url = "s3://bucket/a", .id = "hidden"}); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->to_string(),
              AllOf(HasSubstr("cannot end its upload: status 403, AccessDenied"), Not(HasSubstr("hidden"))));
}

}  // namespace
}  // namespace millrace::s3_upload_test
