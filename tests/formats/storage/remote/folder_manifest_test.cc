#include "millrace/formats/storage/remote/folder_manifest.h"

#include <chrono>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"

namespace millrace::folder_manifest_test {
namespace {

using testing::HasSubstr;

FolderManifest manifest_of_two() {
  return {.id = "20261129T024500Z-5d41402a",
          .files = {{.name = "a", .object = "20261129T024500Z-5d41402a/a", .size = 3, .crc = 0xffffffff},
                    {.name = "b/\xc3\xbc \"\\", .object = "other/b", .size = uint64_t{1} << 40, .crc = 0}}};
}

TEST(FolderManifest, IsReadAsItWasWritten) {
  const auto read = parse_folder_manifest(manifest_of_two().to_text());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->id, "20261129T024500Z-5d41402a");
  ASSERT_EQ(read->files.size(), 2);
  EXPECT_EQ(read->files[0].name, "a");
  EXPECT_EQ(read->files[0].object, "20261129T024500Z-5d41402a/a");
  EXPECT_EQ(read->files[0].crc, 0xffffffff);
  EXPECT_EQ(read->files[1].name, "b/\xc3\xbc \"\\");
  EXPECT_EQ(read->files[1].object, "other/b");
  EXPECT_EQ(read->files[1].size, uint64_t{1} << 40);
  EXPECT_EQ(read->find("b"), nullptr);
  EXPECT_EQ(read->find("a"), read->files.data());
}

// Others call their objects COMMIT, too.
TEST(FolderManifest, IsNoneOfSomebodyElse) {
  for (const char* text :
       {"", "done\n", "{}", "[]", "7", R"({"format": "another", "version": 1})", R"({"format": 7})"}) {
    EXPECT_FALSE(parse_folder_manifest(text)) << text;
  }
}

TEST(FolderManifest, RefusesWhatIsDamaged) {
  const std::string good = manifest_of_two().to_text();
  const auto error_of = [&](const std::string& old, const std::string& with) -> std::string {
    std::string text = good;
    text.replace(text.find(old), old.size(), with);
    try {
      EXPECT_TRUE(parse_folder_manifest(text)) << with;
    } catch (const ErrorException& exception) {
      EXPECT_EQ(exception.error().code, ErrorCode::kParse);
      return exception.error().message;
    }
    return "none";
  };
  EXPECT_THAT(error_of("\"version\": 1", "\"version\": 2"), HasSubstr("of version 2, and this Millrace reads 1"));
  EXPECT_THAT(error_of("\"size\":3", "\"size\":\"3\""), HasSubstr("damaged"));
  EXPECT_THAT(error_of("\"a\"", "\"c\""), HasSubstr("not in order"));
  for (const char* way_out : {"\"/a\"", "\"../a\"", "\"a/../../b\"", "\"a//b\"", "\"\"", "\"a/\"", "\"a\\u0000\""}) {
    EXPECT_THAT(error_of("\"a\"", way_out), HasSubstr("is no name")) << way_out;
    EXPECT_THAT(error_of("\"other/b\"", way_out), HasSubstr("is no name")) << way_out;
  }
}

TEST(FolderManifest, HasIdsThatSayWhenTheyWereMade) {
  const std::string id = make_folder_id();
  EXPECT_NE(id, make_folder_id());
  const auto time = time_of_folder_id(id);
  ASSERT_TRUE(time) << id;
  EXPECT_LT(std::chrono::abs(std::chrono::system_clock::now() - *time), std::chrono::hours(1));
  using namespace std::chrono;
  EXPECT_EQ(time_of_folder_id("20240229T235958Z-0123abcd"),
            sys_days(2024y / February / 29) + hours(23) + minutes(59) + seconds(58));
  for (const char* other : {"", "train", "20230229T000000Z-01234567", "20240229T235958Z-0123abc", "20240229T235958Z",
                            "20240229T235958Z-0123ABCD", "20240229T235958Z-0123abcdx", "20241301T000000Z-01234567"}) {
    EXPECT_FALSE(time_of_folder_id(other)) << other;
  }
}

}  // namespace
}  // namespace millrace::folder_manifest_test
