#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/records/shards.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "tests/formats/storage/remote/fetch.h"
#include "tests/formats/storage/remote/object_server.h"
#include "tests/formats/storage/remote/s3_service.h"
#include "tests/support/sanitized.h"

namespace millrace::s3_glob_test {
namespace {

using test::fetch;
using test::ObjectServer;
using test::s3_fault;
using test::S3ServiceOptions;
using test::ServedFault;
using test::ServedRequest;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = ServedFault::Kind;

const AwsCredentials kKeys{.access_key_id = "AKIAMARKEDKEY", .secret_access_key = "marked/secret+key"};

S3ServiceOptions service() {
  return {.access_key_id = kKeys.access_key_id, .secret_access_key = kKeys.secret_access_key};
}

RemoteOptions options_of(const ObjectServer& server) {
  RemoteOptions options = test::hasty();
  options.s3 = {.endpoint = server.url(""), .credentials = kKeys};
  options.listed = std::make_shared<ListedObjects>();
  options.environment = [](std::string_view) { return std::nullopt; };
  return options;
}

std::string error_of(const RemoteOptions& options, const std::string& pattern) {
  try {
    (void)RemoteStorage(options).glob(pattern);
  } catch (const ErrorException& exception) {
    return exception.error().message;
  }
  return "no error";
}

TEST(S3Glob, FollowsTheRulesOfLocalFiles) {
  ObjectServer server({.s3 = service()});
  for (const char* key : {"train/a.1", "train/b.1", "train/.hidden", "train/sub/a.1", "train/sub/deep/a.1", "train/",
                          "train/[x].1", "train2/a.1", "top", "train/sub/.h/a.1"}) {
    server.put(std::string("bucket/") + key, "abc");
  }
  RemoteStorage storage(options_of(server));
  const auto keys = [&](const std::string& pattern) {
    std::vector<std::string> found = storage.glob("s3://bucket/" + pattern);
    for (std::string& url : found) url = url.substr(12);
    return found;
  };
  EXPECT_THAT(keys("*"), ElementsAre("top", "train/", "train2/"));
  EXPECT_THAT(keys("train/*"), ElementsAre("train/[x].1", "train/a.1", "train/b.1", "train/sub/"));
  EXPECT_THAT(keys("train/[ab].?"), ElementsAre("train/a.1", "train/b.1"));
  EXPECT_THAT(keys("train/[!a]*"), ElementsAre("train/[x].1", "train/b.1", "train/sub/"));
  EXPECT_THAT(keys("train/.*"), ElementsAre("train/.hidden"));
  EXPECT_THAT(keys("*/a.1"), ElementsAre("train/a.1", "train2/a.1"));
  EXPECT_THAT(keys("train*/*/a.1"), ElementsAre("train/sub/a.1"));
  EXPECT_THAT(keys("*/sub/*/*"), ElementsAre("train/sub/deep/a.1"));
  EXPECT_THAT(keys("train/[x].1"), ElementsAre("train/[x].1")) << "it is a key";
  EXPECT_THAT(keys("train/\\[x].1"), ElementsAre("train/[x].1"));
  EXPECT_THAT(keys("top"), ElementsAre("top"));
  EXPECT_THAT(keys("to"), IsEmpty());
  EXPECT_THAT(keys("train/sub"), ElementsAre("train/sub/"));
  EXPECT_THAT(keys("none/*"), IsEmpty());
  EXPECT_THAT(error_of(options_of(server), "s3://bucket/train/"),
              HasSubstr("is a folder; for the objects in it give 's3://bucket/train/*'"));
  EXPECT_THAT(error_of(options_of(server), "s3://bucket"), HasSubstr("for the objects in it give 's3://bucket/*'"));
}

TEST(S3Glob, GivesKeysOfAllBytesAsTheyAre) {
  ObjectServer server({.s3 = service()});
  std::vector<std::string> urls;
  for (const char* key :
       {"a b", "a+b", "a%20b", "a#b", "a&lt;<&>\"'", "\xc3\xa4", "a\nb", "a\r\nb", " ", "a\x7f", "(1)"}) {
    server.put(std::string("bucket/d/") + key, key);
    urls.push_back(std::string("s3://bucket/d/") + key);
  }
  std::ranges::sort(urls);
  RemoteStorage storage(options_of(server));
  EXPECT_EQ(storage.glob("s3://bucket/d/*"), urls);
  for (const std::string& url : urls) EXPECT_EQ(fetch(storage, url).bytes, url.substr(14));
}

// 100,000 keys in pages of 1,000, with the signature of each of their tokens: all in their order, each page told once,
// and of each the version known afterwards.
TEST(S3Glob, ListsPageAfterPageAndTellsHowItGetsOn) {
  constexpr size_t kPage = 1000;
  constexpr size_t kObjects = test::kSanitized ? 5 * kPage : 100 * kPage;
  ObjectServer server({.s3 = service()});
  std::vector<std::string> urls;
  std::vector<size_t> pages;
  for (size_t i = 0; i < kObjects; ++i) {
    server.put(fmt::format("bucket/train/part {:05}", i), "x");
    urls.push_back(fmt::format("s3://bucket/train/part {:05}", i));
    if (urls.size() % kPage == 0) pages.push_back(urls.size());
  }
  const RemoteOptions options = options_of(server);
  std::vector<size_t> told;
  EXPECT_EQ(RemoteStorage(options).glob("s3://bucket/train/part *", [&](size_t keys) { told.push_back(keys); }), urls);
  EXPECT_EQ(told, pages);
  EXPECT_EQ(server.requests().size(), pages.size());
  EXPECT_EQ(options.listed->size(), kObjects);
}

TEST(S3Glob, EndsWhereWhoeverIsToldThrows) {
  ObjectServer server({.s3 = service()});
  for (int i = 0; i < 3000; ++i) server.put(fmt::format("bucket/{}", i), "x");
  RemoteStorage storage(options_of(server));
  const auto stop = [](size_t keys) {
    if (keys == 2000) throw std::runtime_error("enough");
  };
  EXPECT_THROW((void)storage.glob("s3://bucket/*", stop), std::runtime_error);
  EXPECT_EQ(server.requests().size(), 2U);
}

// Folders of many keys that no pattern wants are not listed; small ones are, all at once.
TEST(S3Glob, ListsFoldersAloneWhereTheyAreLarge) {
  ObjectServer server({.s3 = service()});
  std::vector<std::string> urls;
  for (int folder = 0; folder < 20; ++folder) {
    for (int i = 0; i < 1000; ++i) server.put(fmt::format("bucket/large/{:02}/other/{}", folder, i), "x");
    server.put(fmt::format("bucket/large/{:02}/index", folder), "x");
    urls.push_back(fmt::format("s3://bucket/large/{:02}/index", folder));
    for (int i = 0; i < 10; ++i) server.put(fmt::format("bucket/small/{:02}/{}", folder, i), "x");
  }
  RemoteStorage storage(options_of(server));
  EXPECT_EQ(storage.glob("s3://bucket/large/*/index"), urls);
  // The first page, the folders, and each folder.
  EXPECT_EQ(server.requests().size(), 22U);
  EXPECT_EQ(storage.glob("s3://bucket/small/*/*").size(), 200U);
  EXPECT_EQ(server.requests().size(), 23U);
  for (int i = 0; i < 1800; ++i) server.put(fmt::format("bucket/many/{}/{}", i / 9, i), "x");
  EXPECT_EQ(storage.glob("s3://bucket/many/*/*").size(), 1800U);
  EXPECT_EQ(server.requests().size(), 25U);
}

TEST(S3Glob, FindsAPatternThatIsAKeyInLargeFolders) {
  ObjectServer server({.s3 = service()});
  for (int i = 0; i < 1500; ++i) server.put(fmt::format("bucket/a/{}", i), "x");
  server.put("bucket/[ab]/1*", "x");
  server.put("bucket/[ab]/11", "x");
  RemoteStorage storage(options_of(server));
  EXPECT_THAT(storage.glob("s3://bucket/[ab]/1*"), ElementsAre("s3://bucket/[ab]/1*"));
}

// Whoever may read but not list names his objects.
TEST(S3Glob, TakesAUrlAsItStandsWhereNobodyMayList) {
  S3ServiceOptions s3 = service();
  s3.allows_listing = false;
  ObjectServer server({.s3 = s3});
  server.put("bucket/a", "abc");
  RemoteStorage storage(options_of(server));
  EXPECT_THAT(storage.glob("s3://bucket/a"), ElementsAre("s3://bucket/a"));
  EXPECT_EQ(fetch(storage, "s3://bucket/a").bytes, "abc");
  EXPECT_THAT(error_of(options_of(server), "s3://bucket/*"), HasSubstr("cannot list it: status 403, AccessDenied: "));
  EXPECT_THAT(error_of(options_of(server), "s3://other/a"), HasSubstr("status 404, NoSuchBucket: "));
}

TEST(S3Glob, SaysWhatIsNoListing) {
  const std::string begin = "<ListBucketResult>";
  const std::string end = "</ListBucketResult>";
  const std::string laden = "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">]>" +
                            begin + "<Contents><Key>&b;</Key><Size>1</Size></Contents>" + end;
  const std::map<std::string, std::string> cases{
      {"<html>sign in</html>", "there is no ListBucketResult in '<html>sign in</html>'"},
      {"", "No document element"},
      {begin + "<Contents><Key>a</Key>", "at byte"},
      {begin + "<Contents><Key>a</Key><Size>-1</Size></Contents>" + end, "the size of 'a' is '-1'"},
      {begin + "<Contents><Size>1</Size></Contents>" + end, "an object has no key"},
      {begin + "<IsTruncated>true</IsTruncated>" + end, "it goes on, but does not say where"},
      {laden, "it has a DOCTYPE"},
      {begin + "<IsTruncated>true</IsTruncated><NextContinuationToken>a</NextContinuationToken>" + end,
       "its pages lead in a circle"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "status 200, AccessDenied"},
  };
  for (const auto& [text, message] : cases) {
    ObjectServer server(
        {.fault = [&said = text](
                      const ServedRequest&) { return ServedFault{.kind = Kind::kStatus, .status = 200, .text = said}; },
         .s3 = service()});
    EXPECT_THAT(error_of(options_of(server), "s3://bucket/*"), HasSubstr(message)) << text;
    EXPECT_LE(server.requests().size(), 2U);
  }
}

TEST(S3Glob, EndsWherePagesLeadInACircle) {
  ObjectServer server({.fault =
                           [&](const ServedRequest& request) {
                             const bool is_a = request.path.find("continuation-token=a") != std::string::npos;
                             return ServedFault{.kind = Kind::kStatus,
                                                .status = 200,
                                                .text = fmt::format("<ListBucketResult><IsTruncated>true</IsTruncated>"
                                                                    "<NextContinuationToken>{}</NextContinuationToken>"
                                                                    "</ListBucketResult>",
                                                                    is_a ? "b" : "a")};
                           },
                       .s3 = service()});
  EXPECT_THAT(error_of(options_of(server), "s3://bucket/*"), HasSubstr("its pages lead in a circle"));
  EXPECT_EQ(server.requests().size(), 3U);
}

// Data in them would be lost without a word; large ones are found by their names alone.
TEST(S3Glob, ShardsRefuseFoldersThatAPatternMatches) {
  ObjectServer server({.s3 = service()});
  for (int i = 0; i < 1200; ++i) server.put(fmt::format("bucket/train/b/part-{}", i), "x");
  server.put("bucket/train/a.1", "x");
  server.put("bucket/train/_logs/1", "x");
  server.put("bucket/day/1/a", "x");
  server.put("bucket/day/1/sub/b", "x");
  RemoteStorage storage(options_of(server));
  const auto refusal_of = [&](const std::string& pattern) {
    try {
      (void)Shards::glob(storage, pattern);
    } catch (const ErrorException& exception) {
      return exception.error().message;
    }
    return std::string("no error");
  };
  EXPECT_THAT(refusal_of("s3://bucket/train/*"), HasSubstr("matches folders: 's3://bucket/train/b'. The files in them "
                                                           "are 's3://bucket/train/*/*'"));
  EXPECT_THAT(refusal_of("s3://bucket/day/*/*"), HasSubstr("matches folders: 's3://bucket/day/1/sub'"));
  EXPECT_THAT(refusal_of("s3://bucket/train/b"), HasSubstr("matches folders"));
  EXPECT_EQ(refusal_of("s3://bucket/train/a*"), "no error");
  EXPECT_EQ(refusal_of("s3://bucket/train/b/*"), "no error");
}

// In programs whoever lists is not whoever reads.
TEST(S3Glob, KeepsWhatItFoundForWhoReadsNext) {
  S3ServiceOptions s3 = service();
  s3.allows_anonymous = true;
  ObjectServer server({.s3 = s3});
  server.put("kept/a", "abc");
  ASSERT_EQ(setenv("AWS_NO_SIGN_REQUEST", "1", 1), 0);
  ASSERT_EQ(setenv("AWS_ENDPOINT_URL", server.url("").c_str(), 1), 0);
  std::weak_ptr<RemoteStorage> known = RemoteStorage::of_process();
  EXPECT_TRUE(known.expired()) << "nobody has it";
  EXPECT_THAT(glob_anywhere("s3://kept/*"), ElementsAre("s3://kept/a"));
  known = RemoteStorage::of_process();
  EXPECT_FALSE(known.expired());
  EXPECT_EQ(known_size("s3://kept/a"), 3U);
  EXPECT_FALSE(known_size("s3://kept/b"));
  InlineExecutor executor;
  RoutedStorage storage(executor);
  EXPECT_EQ(fetch(storage, "s3://kept/a").bytes, "abc");
  EXPECT_EQ(server.requests().size(), 2U) << "the listing and the object";
  ASSERT_EQ(unsetenv("AWS_ENDPOINT_URL"), 0);
  EXPECT_NE(RemoteStorage::of_process(), known.lock()) << "it is of another environment";
  ASSERT_EQ(unsetenv("AWS_NO_SIGN_REQUEST"), 0);
}

// Status 200, and an error all the same.
TEST(S3Glob, AsksAgainWhereASuccessIsNone) {
  ObjectServer server({.fault =
                           [](const ServedRequest& request) {
                             ServedFault fault = s3_fault(200, "InternalError");
                             return request.number < 2 ? fault : ServedFault();
                           },
                       .s3 = service()});
  server.put("bucket/a", "x");
  RemoteStorage storage(options_of(server));
  EXPECT_THAT(storage.glob("s3://bucket/*"), ElementsAre("s3://bucket/a"));
}

// Each fault at one request of the listing: the same keys.
TEST(S3Glob, GetsOverConnectionsThatBreak) {
  for (const Kind kind : {Kind::kResetBeforeHead, Kind::kResetInHead, Kind::kGarbage}) {
    for (const uint64_t number : {0, 2}) {
      ObjectServer server({.fault =
                               [&](const ServedRequest& request) {
                                 return ServedFault{.kind = request.number == number ? kind : Kind::kNone};
                               },
                           .s3 = service()});
      for (int i = 0; i < 3000; ++i) server.put(fmt::format("bucket/{}", i), "x");
      EXPECT_EQ(RemoteStorage(options_of(server)).glob("s3://bucket/*").size(), 3000U);
    }
  }
}

// 100,000 keys, of which as many are known later, and not one more.
TEST(S3Glob, KeepsABoundedNumberOfVersions) {
  ListedObjects listed(3);
  for (const char* name : {"a", "b", "c", "b", "d"}) listed.put(name, {.tag = name, .size = 1});
  EXPECT_EQ(listed.size(), 3U);
  EXPECT_FALSE(listed.find("a"));
  EXPECT_EQ(listed.find("d")->tag, "d");
  listed.put("e", {.size = 1});
  EXPECT_FALSE(listed.find("e")) << "a size alone does not tell contents apart";
  listed.forget("d");
  EXPECT_FALSE(listed.find("d"));
  for (int i = 0; i < 10; ++i) {
    listed.put("f", {.tag = "f", .size = 1});
    listed.forget("f");
  }
  listed.put("f", {.tag = "f", .size = 1});
  listed.put("g", {.tag = "g", .size = 1});
  EXPECT_TRUE(listed.find("f")) << "what was forgotten counts no more";
}

}  // namespace
}  // namespace millrace::s3_glob_test
