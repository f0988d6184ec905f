#include "millrace/formats/storage/remote/gcs_listing.h"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"

namespace millrace::gcs_listing_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(GcsListing, AsksForNamesSizesAndGenerations) {
  const std::string url =
      "https://storage.googleapis.com/storage/v1/b/bucket/o?fields="
      "items%28name%2Csize%2Cgeneration%29%2Cprefixes%2CnextPageToken&maxResults=";
  EXPECT_EQ(gcs_list_url({}, {.bucket = "bucket"}), url + "1000");
  EXPECT_EQ(gcs_list_url({.user_project = "pays"},
                         {.bucket = "bucket", .prefix = "a b/", .by_folder = true, .page = "Cg=", .most = 5}),
            url + "5&prefix=a%20b%2F&delimiter=%2F&pageToken=Cg%3D&userProject=pays");
}

TEST(GcsListing, ReadsAPage) {
  const ListedPage page = parse_gcs_page(
      R"({"kind": "storage#objects", "nextPageToken": "Cg0=", "prefixes": ["a/b/", "a/c/"],
          "items": [{"name": "a/\u00fc", "size": "9007199254740993", "generation": "1700000000000001"},
                    {"name": "a/x", "size": 0}]})");
  ASSERT_EQ(page.objects.size(), 2U);
  EXPECT_EQ(page.objects[0].key, "a/\xc3\xbc");
  EXPECT_EQ(page.objects[0].version.to_string(), "generation 1700000000000001, 9007199254740993 bytes");
  EXPECT_EQ(page.objects[1].key, "a/x");
  EXPECT_EQ(page.objects[1].version.to_string(), "0 bytes");
  EXPECT_THAT(page.folders, ElementsAre("a/b/", "a/c/"));
  EXPECT_EQ(page.next, "Cg0=");
}

TEST(GcsListing, OfNothingIsEmpty) {
  const ListedPage page = parse_gcs_page("{}");
  EXPECT_THAT(page.objects, IsEmpty());
  EXPECT_THAT(page.folders, IsEmpty());
  EXPECT_EQ(page.next, "");
}

TEST(GcsListing, RefusesWhatIsNoPage) {
  const struct {
    std::string body;
    std::string message;
  } cases[] = {
      {"", "not JSON"},
      {"<html>", "not JSON"},
      {"{\"items\": [", "not JSON"},
      {std::string(200, '['), "JSON nested too deeply"},
      {"[]", "it is no object of JSON"},
      {R"({"items": {}})", "its 'items' are no array"},
      {R"({"items": [5]})", "an object has no name"},
      {R"({"items": [{"size": "5"}]})", "an object has no name"},
      {R"({"items": [{"name": 5, "size": "5"}]})", "a name is no text"},
      {R"({"items": [{"name": "", "size": "5"}]})", "a name has 0 bytes"},
      {fmt::format(R"({{"items": [{{"name": "{}", "size": "5"}}]}})", std::string(1025, 'a')), "a name has 1025 bytes"},
      {R"({"items": [{"name": "a"}]})", "it does not say the size of 'a'"},
      {R"({"items": [{"name": "a", "size": "-1"}]})", "'\"-1\"' is no size"},
      {R"({"items": [{"name": "a", "size": "9223372036854775808"}]})", "is no size"},
      {R"({"items": [{"name": "a", "size": 9223372036854775808}]})", "is no size"},
      {R"({"items": [{"name": "a", "size": 1.5}]})", "'1.5' is no size"},
      {R"({"items": [{"name": "a", "size": "1", "generation": "x"}]})", "'\"x\"' is no generation"},
      {R"({"prefixes": "a/"})", "its 'prefixes' are no array"},
      {R"({"prefixes": [null]})", "a prefix is no text"},
      {R"({"nextPageToken": 5})", "its 'nextPageToken' is no text"},
      {fmt::format(R"({{"nextPageToken": "{}"}})", std::string(65537, 't')), "its 'nextPageToken' is too long"},
  };
  for (const auto& c : cases) {
    try {
      (void)parse_gcs_page(c.body);
      ADD_FAILURE() << c.message;
    } catch (const ErrorException& exception) {
      EXPECT_EQ(exception.error().code, ErrorCode::kParse);
      EXPECT_THAT(exception.error().message, AllOf(StartsWith("the answer is no listing: "), HasSubstr(c.message)));
      EXPECT_EQ(exception.error().message.find('\n'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace millrace::gcs_listing_test
