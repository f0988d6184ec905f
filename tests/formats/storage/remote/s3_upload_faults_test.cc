// What goes wrong while an object is written to S3: it comes whole, or there is one error and nothing in the store.
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
#include "tests/formats/storage/remote/idle_http_clock.h"
#include "tests/formats/storage/remote/object_server.h"
#include "tests/formats/storage/remote/s3_client.h"
#include "tests/formats/storage/remote/s3_service.h"
#include "tests/formats/storage/remote/upload_client.h"
#include "tests/support/sanitized.h"

namespace millrace::s3_upload_faults_test {
namespace {

using test::content_of;
using test::marked_service;
using test::ObjectServer;
using test::s3_fault;
using test::S3ServiceOptions;
using test::ServedFault;
using test::ServedRequest;
using test::write_object;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Kind = ServedFault::Kind;

constexpr size_t kPart = 100'000;
const OutputOptions kParts{.part_bytes = kPart, .in_flight = 3};

// Stalls and waits cost no time.
RemoteOptions options_of(const ObjectServer& server) {
  RemoteOptions options = test::s3_options(server);
  options.retries = {};
  options.engine = std::make_shared<HttpEngine>(HttpEngineOptions{.clock = std::make_shared<test::IdleHttpClock>()});
  return options;
}

bool begins(const ServedRequest& request) { return request.path.ends_with("?uploads"); }
bool completes(const ServedRequest& request) { return request.method == "POST" && !begins(request); }
bool is_part(const ServedRequest& request) { return request.path.find("partNumber=") != std::string::npos; }

ServedFault in_200() {
  ServedFault fault = s3_fault(500, "InternalError");
  fault.status = 200;
  return fault;
}

const std::vector<ServedFault>& passing_faults() {
  static const std::vector<ServedFault> faults{
      {.kind = Kind::kStatus, .status = 500},
      {.kind = Kind::kStatus, .status = 429, .headers = {{"Retry-After", "2"}}},
      s3_fault(503, "SlowDown"),
      s3_fault(400, "RequestTimeout"),
      s3_fault(409, "ConditionalRequestConflict"),
      {.kind = Kind::kStatusBeforeUpload, .status = 503},
      {.kind = Kind::kResetInUpload},
      {.kind = Kind::kResetAfterUpload},
      {.kind = Kind::kResetBeforeHead},
      {.kind = Kind::kResetInHead},
      {.kind = Kind::kCloseInBody},
      {.kind = Kind::kStallUpload},
      {.kind = Kind::kStallBeforeHead},
      {.kind = Kind::kGarbage}};
  return faults;
}

// Of a request that was carried out, and the answer was lost.
bool is_lost(Kind kind) {
  return kind == Kind::kResetBeforeHead || kind == Kind::kResetInHead || kind == Kind::kStallBeforeHead;
}

TEST(S3UploadFaults, EachAloneIsGotOver) {
  for (const size_t size : {kPart, 3 * kPart + 1}) {
    const size_t num_requests = size <= kPart ? 1 : 6;
    for (size_t i = 0; i < passing_faults().size(); ++i) {
      const ServedFault& fault = passing_faults()[i];
      for (uint64_t number = 0; number < num_requests; ++number) {
        ObjectServer server(
            {.fault = [&](const ServedRequest& request) { return request.number == number ? fault : ServedFault(); },
             .s3 = marked_service()});
        server.put("bucket/other", "");
        RemoteStorage storage(options_of(server));
        const auto error = write_object(storage, "s3://bucket/a", content_of(size), kParts);
        ASSERT_FALSE(error) << "fault " << i << " at " << number << ": " << error->to_string();
        EXPECT_TRUE(server.content("bucket/a") == content_of(size)) << "fault " << i << " at " << number;
        // Nobody knows the number of an upload whose beginning was not told; it has no parts.
        const bool has_left_one = size > kPart && number == 0 && is_lost(fault.kind);
        EXPECT_EQ(server.unfinished_uploads().size(), has_left_one ? 1U : 0U) << "fault " << i << " at " << number;
      }
    }
  }
}

// With status 200, of a request that was not carried out.
TEST(S3UploadFaults, AnErrorInASuccessIsJudged) {
  int completions = 0;
  ObjectServer server({.fault =
                           [&](const ServedRequest& request) {
                             return completes(request) && completions++ == 0 ? in_200() : ServedFault();
                           },
                       .s3 = marked_service()});
  server.put("bucket/other", "");
  RemoteStorage storage(options_of(server));
  EXPECT_FALSE(write_object(storage, "s3://bucket/a", content_of(3 * kPart), kParts));
  EXPECT_EQ(server.content("bucket/a"), content_of(3 * kPart));
  EXPECT_EQ(completions, 2);
}

TEST(S3UploadFaults, AnErrorInASuccessMayBeFinal) {
  ServedFault refusal = s3_fault(200, "AccessDenied");
  ObjectServer server(
      {.fault = [&](const ServedRequest& request) { return completes(request) ? refusal : ServedFault(); },
       .s3 = marked_service()});
  server.put("bucket/other", "");
  RemoteStorage storage(options_of(server));
  const auto error = write_object(storage, "s3://bucket/a", content_of(3 * kPart), kParts);
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message, HasSubstr("cannot write it: status 200, AccessDenied: "));
  EXPECT_EQ(server.content("bucket/a"), std::nullopt);
  EXPECT_THAT(server.unfinished_uploads(), IsEmpty());
}

// The store has carried it out, and says that there is no such upload when it is asked again.
TEST(S3UploadFaults, AnObjectWhoseLastAnswerWasLostIsThere) {
  for (const bool keeps_metadata : {true, false}) {
    for (const bool if_absent : {true, false}) {
      int completions = 0;
      S3ServiceOptions s3 = marked_service();
      s3.keeps_metadata = keeps_metadata;
      ObjectServer server({.fault =
                               [&](const ServedRequest& request) {
                                 const bool is_first = completes(request) && completions++ == 0;
                                 return ServedFault{.kind = is_first ? Kind::kResetBeforeHead : Kind::kNone};
                               },
                           .s3 = s3});
      server.put("bucket/other", "");
      RemoteStorage storage(options_of(server));
      OutputOptions options = kParts;
      options.if_absent = if_absent;
      const auto error = write_object(storage, "s3://bucket/a", content_of(3 * kPart), options);
      EXPECT_FALSE(error) << error->to_string();
      EXPECT_EQ(server.content("bucket/a"), content_of(3 * kPart));
      EXPECT_EQ(server.requests().back().method, "HEAD");
    }
  }
}

// An object of the same size, of somebody else.
TEST(S3UploadFaults, AnotherObjectIsNotTakenForTheOneWhoseAnswerWasLost) {
  for (const bool keeps_metadata : {true, false}) {
    S3ServiceOptions s3 = marked_service();
    s3.keeps_metadata = keeps_metadata;
    ObjectServer* place = nullptr;
    ObjectServer server({.fault =
                             [&](const ServedRequest& request) {
                               if (request.method != "HEAD") {
                                 return completes(request) ? ServedFault{.kind = Kind::kResetBeforeHead}
                                                           : ServedFault();
                               }
                               place->put("bucket/a", std::string(3 * kPart, 'x'));
                               return ServedFault();
                             },
                         .s3 = s3});
    place = &server;
    server.put("bucket/other", "");
    RemoteStorage storage(options_of(server));
    EXPECT_TRUE(write_object(storage, "s3://bucket/a", content_of(3 * kPart), kParts));
  }
}

// It is there already: by ourselves.
TEST(S3UploadFaults, AConditionThatIsHurtByAnEarlierAttemptHolds) {
  for (const bool keeps_metadata : {true, false}) {
    int lost = 0;
    S3ServiceOptions s3 = marked_service();
    s3.keeps_metadata = keeps_metadata;
    ObjectServer server({.fault =
                             [&](const ServedRequest& request) {
                               const bool is_lost = request.method == "PUT" && lost++ % 2 == 0;
                               return ServedFault{.kind = is_lost ? Kind::kResetBeforeHead : Kind::kNone};
                             },
                         .s3 = s3});
    server.put("bucket/other", "");
    RemoteStorage storage(options_of(server));
    const OutputOptions options{.if_absent = true};
    const auto error = write_object(storage, "s3://bucket/a", "mine", options);
    EXPECT_FALSE(error) << keeps_metadata << error->to_string();
    EXPECT_TRUE(write_object(storage, "s3://bucket/a", "else", options));
    EXPECT_EQ(server.content("bucket/a"), "mine");
  }
}

TEST(S3UploadFaults, WhatStaysRefusedIsOneErrorAndNothingIsLeft) {
  const std::vector<std::function<bool(const ServedRequest&)>> places{begins, is_part, completes};
  for (size_t i = 0; i < places.size(); ++i) {
    ObjectServer server({.fault =
                             [&](const ServedRequest& request) {
                               return places[i](request) ? s3_fault(403, "AccessDenied") : ServedFault();
                             },
                         .s3 = marked_service()});
    server.put("bucket/a", "before");
    RemoteStorage storage(options_of(server));
    const auto error = write_object(storage, "s3://bucket/a", content_of(8 * kPart), kParts);
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message, AllOf(HasSubstr("cannot write it: "), HasSubstr("status 403, AccessDenied: "),
                                      HasSubstr("(request 4442587FB7D0A2F9)"), HasSubstr("region us-east-1")));
    EXPECT_EQ(server.content("bucket/a"), "before");
    EXPECT_THAT(server.unfinished_uploads(), IsEmpty());
  }
}

// For the password in it.
TEST(S3UploadFaults, ARedirectThatNobodyMayFollowIsAnError) {
  const std::vector<std::function<bool(const ServedRequest&)>> places{
      [](const ServedRequest& request) { return request.method == "PUT"; }, begins, is_part, completes};
  for (size_t i = 0; i < places.size(); ++i) {
    ObjectServer server(
        {.fault = [&](const ServedRequest& request) -> ServedFault {
           if (!places[i](request)) return {};
           return {.kind = Kind::kStatus, .status = 307, .headers = {{"Location", "http://user:marked@127.0.0.1/x"}}};
         },
         .s3 = marked_service()});
    server.put("bucket/a", "before");
    RemoteStorage storage(options_of(server));
    const auto error = write_object(storage, "s3://bucket/a", content_of(i == 0 ? kPart : 3 * kPart), kParts);
    ASSERT_TRUE(error) << i;
    EXPECT_THAT(error->message, AllOf(HasSubstr("status 307"), Not(HasSubstr("marked"))));
    EXPECT_EQ(server.content("bucket/a"), "before");
    EXPECT_THAT(server.unfinished_uploads(), IsEmpty());
  }
}

TEST(S3UploadFaults, ARedirectIsFollowedWithTheBody) {
  for (const size_t size : {kPart, 3 * kPart}) {
    ObjectServer target({.s3 = marked_service()});
    target.put("bucket/other", "");
    ObjectServer server({.fault =
                             [&](const ServedRequest& request) {
                               return ServedFault{.kind = Kind::kStatus,
                                                  .status = 307,
                                                  .headers = {{"Location", target.url("") + request.path.substr(1)}}};
                             },
                         .s3 = marked_service()});
    RemoteStorage storage(options_of(server));
    const auto error = write_object(storage, "s3://bucket/a", content_of(size), kParts);
    ASSERT_FALSE(error) << error->to_string();
    EXPECT_TRUE(target.content("bucket/a") == content_of(size));
  }
}

TEST(S3UploadFaults, SaysWhenItCannotBeSeenWhetherAnObjectIsThere) {
  for (const size_t size : {kPart, 3 * kPart}) {
    int lost = 0;
    ObjectServer server({.fault = [&](const ServedRequest& request) -> ServedFault {
                           if (request.method == "HEAD") return {.kind = Kind::kStatus, .status = 403};
                           const bool is_last = completes(request) || (request.method == "PUT" && !is_part(request));
                           if (is_last && lost++ == 0) return {.kind = Kind::kResetBeforeHead};
                           return {};
                         },
                         .s3 = marked_service()});
    server.put("bucket/other", "");
    RemoteStorage storage(options_of(server));
    OutputOptions options = kParts;
    options.if_absent = true;
    const auto error = write_object(storage, "s3://bucket/a", content_of(size), options);
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message, HasSubstr("; whether it is there cannot be seen: status 403"));
  }
}

// As parts do that came after it.
TEST(S3UploadFaults, AnAbortIsRepeatedUntilNothingIsThere) {
  int aborts = 0;
  ObjectServer server({.fault = [&](const ServedRequest& request) -> ServedFault {
                         if (is_part(request)) return s3_fault(403, "AccessDenied");
                         if (request.method != "DELETE") return {};
                         return {.kind = aborts++ == 0 ? Kind::kStatus : Kind::kNone, .status = 204};
                       },
                       .s3 = marked_service()});
  server.put("bucket/other", "");
  RemoteStorage storage(options_of(server));
  EXPECT_TRUE(write_object(storage, "s3://bucket/a", content_of(3 * kPart), kParts));
  EXPECT_THAT(server.unfinished_uploads(), IsEmpty());
  EXPECT_EQ(aborts, 3);
}

TEST(S3UploadFaults, AStoreThatDoesNotAnswerIsGivenUp) {
  for (const Kind kind : {Kind::kStallUpload, Kind::kResetInUpload, Kind::kStatus}) {
    ObjectServer server({.fault =
                             [&](const ServedRequest& request) {
                               return is_part(request) ? ServedFault{.kind = kind, .status = 503} : ServedFault();
                             },
                         .s3 = marked_service()});
    server.put("bucket/other", "");
    RemoteStorage storage(options_of(server));
    const auto error = write_object(storage, "s3://bucket/a", content_of(3 * kPart), kParts);
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message, AllOf(HasSubstr("cannot write it: part "), HasSubstr("attempts)")));
    EXPECT_EQ(server.content("bucket/a"), std::nullopt);
    EXPECT_THAT(server.unfinished_uploads(), IsEmpty());
  }
}

// A store that repeats all that it was sent.
TEST(S3UploadFaults, NoSecretIsInAnError) {
  for (const bool in_xml : {true, false}) {
    ObjectServer server({.fault =
                             [&](const ServedRequest& request) {
                               if (begins(request) || request.method == "DELETE") return ServedFault();
                               std::string all = "said " + request.path;
                               for (const char* name : {"authorization", "x-amz-security-token"}) {
                                 all += ' ' + request.headers.at(name);
                               }
                               if (!in_xml) return ServedFault{.kind = Kind::kStatus, .status = 403, .text = all};
                               return s3_fault(403, "NoSuchUpload hidden+id/1== " + all);
                             },
                         .s3 = marked_service()});
    server.put("bucket/other", "");
    RemoteStorage storage(options_of(server));
    const auto error = write_object(storage, "s3://bucket/a", content_of(3 * kPart), kParts);
    ASSERT_TRUE(error);
    EXPECT_THAT(error->to_string(), AllOf(HasSubstr("status 403"), Not(HasSubstr("hidden")), Not(HasSubstr("marked")),
                                          Not(HasSubstr(test::marked_credentials().access_key_id))));
  }
}

std::vector<std::string> conditions_of(const ObjectServer& server) {
  std::vector<std::string> conditions;
  for (const ServedRequest& request : server.requests()) {
    for (const std::string name : {"if-none-match", "if-match"}) {
      const auto found = request.headers.find(name);
      if (found != request.headers.end()) conditions.push_back(name + ": " + found->second);
    }
  }
  return conditions;
}

TEST(S3UploadFaults, AConditionThatTheStoreDoesNotImplementIsLeftOutFromThenOn) {
  for (const int status : {501, 400}) {
    for (const size_t size : {kPart, 3 * kPart}) {
      S3ServiceOptions s3 = marked_service();
      s3.not_implemented = {{"if-none-match", status}};
      ObjectServer server({.s3 = s3});
      server.put("bucket/other", "");
      RemoteStorage storage(options_of(server));
      OutputOptions options = kParts;
      options.if_absent = true;
      for (const std::string key : {"a", "b"}) {
        const auto error = write_object(storage, "s3://bucket/" + key, content_of(size), options);
        EXPECT_FALSE(error) << status << error->to_string();
        EXPECT_TRUE(server.content("bucket/" + key) == content_of(size));
      }
      EXPECT_THAT(conditions_of(server), ElementsAre("if-none-match: *"));
      const auto there = write_object(storage, "s3://bucket/a", "other", options);
      ASSERT_TRUE(there) << "it is looked at";
      EXPECT_THAT(there->message, HasSubstr("there is such an object already"));
      EXPECT_THAT(server.unfinished_uploads(), IsEmpty());
      const auto error = write_object(storage, "s3://bucket/a", "other", {.if_version = "none"});
      ASSERT_TRUE(error) << "it knows this one";
      EXPECT_THAT(error->message, HasSubstr("there is another object than the one to be replaced"));
    }
  }
}

TEST(S3UploadFaults, ConditionsThatTheStoreKnowsAreAlwaysAskedFor) {
  std::atomic<bool> refuses = false;
  ObjectServer server(
      {.fault = [&](const ServedRequest&) { return refuses ? s3_fault(501, "NotImplemented") : ServedFault(); },
       .s3 = marked_service()});
  server.put("bucket/a", "before");  // its tag is tag-1
  RemoteStorage storage(options_of(server));
  const OutputOptions absent{.if_absent = true};
  const OutputOptions replaced{.if_version = "tag-1"};
  refuses = true;
  EXPECT_TRUE(write_object(storage, "s3://bucket/a", "x", absent)) << "refused without the condition, too";
  EXPECT_TRUE(write_object(storage, "s3://bucket/a", "x", replaced));
  refuses = false;
  EXPECT_TRUE(write_object(storage, "s3://bucket/a", "x", absent)) << "it is there";
  EXPECT_FALSE(write_object(storage, "s3://bucket/a", "x", replaced));
  EXPECT_TRUE(write_object(storage, "s3://bucket/a", "y", replaced)) << "it is another";
  EXPECT_EQ(server.content("bucket/a"), "x");
  EXPECT_THAT(conditions_of(server), ElementsAre("if-none-match: *", "if-match: \"tag-1\"", "if-none-match: *",
                                                 "if-match: \"tag-1\"", "if-match: \"tag-1\""));
}

// Any number of faults, at any request.
TEST(S3UploadFaults, DrawnScriptsEndWithAWholeObjectOrWithNone) {
  size_t num_errors = 0;
  for (unsigned seed = 0; seed < 100; seed += test::kStride) {
    std::mt19937 random(seed);
    std::atomic<size_t> begun_in_vain = 0;
    int faults_left = 12;
    ObjectServer server({.fault = [&](const ServedRequest& request) -> ServedFault {
                           const bool ends_it = request.method == "DELETE" || request.method == "HEAD";
                           if (ends_it || random() % 3 != 0 || faults_left-- <= 0) return {};
                           const bool is_final = random() % 12 == 0;
                           if (is_final) return s3_fault(403, "AccessDenied");
                           ServedFault fault = passing_faults()[random() % passing_faults().size()];
                           if (completes(request) && random() % 3 == 0) fault = in_200();
                           if (begins(request) && is_lost(fault.kind)) ++begun_in_vain;
                           return fault;
                         },
                         .s3 = marked_service()});
    const bool is_there = seed % 4 == 0;
    server.put(is_there ? "bucket/a" : "bucket/other", "before");
    OutputOptions options = kParts;
    options.if_absent = seed % 3 == 0;
    const std::string content = content_of(std::mt19937(seed + 1000)() % (5 * kPart));
    RemoteStorage storage(options_of(server));
    const auto error = write_object(storage, "s3://bucket/a", content, options);
    const std::optional<std::string> found = server.content("bucket/a");
    if (error) {
      ++num_errors;
      EXPECT_EQ(found, is_there ? std::optional<std::string>("before") : std::nullopt) << seed << error->to_string();
    } else {
      EXPECT_TRUE(found == content) << seed;
      EXPECT_FALSE(is_there && options.if_absent) << seed;
    }
    EXPECT_LE(server.unfinished_uploads().size(), begun_in_vain) << seed;
  }
  EXPECT_LT(num_errors, 60 / test::kStride);
}

}  // namespace
}  // namespace millrace::s3_upload_faults_test
