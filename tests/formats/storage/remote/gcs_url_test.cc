#include "millrace/formats/storage/remote/gcs_url.h"

#include <map>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"

namespace millrace::gcs_url_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(GcsUrl, IsABucketAndTheBytesOfAKey) {
  for (const char* key : {"a", "train/part-0.tfrecord", "a//b", "/a", "a/", "../x", "a b", "a%2Fb", "a?b#c&d+e",
                          "\xc3\xbc", "[*]", "..."}) {
    const ObjectUrl url = parse_gcs_url(fmt::format("gs://my-bucket_1.example.org/{}", key));
    EXPECT_EQ(url.bucket, "my-bucket_1.example.org");
    EXPECT_EQ(url.key, key);
    EXPECT_EQ(url.to_string(), fmt::format("gs://my-bucket_1.example.org/{}", key));
  }
  EXPECT_EQ(parse_gcs_url("gs://bucket").key, "");
  EXPECT_EQ(parse_gcs_url("gs://bucket/").key, "");
  EXPECT_EQ(parse_gcs_url("gs://bucket/" + std::string(1024, 'k')).key.size(), 1024U);
  EXPECT_TRUE(is_gcs_url("gs://b"));
  EXPECT_FALSE(is_gcs_url("gs:/b"));
  EXPECT_FALSE(is_gcs_url("s3://b"));
}

TEST(GcsUrl, NamesWhatIsNone) {
  const struct {
    std::string path;
    std::string message;
  } cases[] = {
      {"s3://bucket/key", "it does not begin with gs://"},
      {"gs://", "no bucket has the name ''"},
      {"gs:///key", "no bucket has the name ''"},
      {"gs://Bucket/key", "no bucket has the name 'Bucket'"},
      {"gs://-bucket/key", "no bucket has the name '-bucket'"},
      {"gs://bucket./key", "no bucket has the name 'bucket.'"},
      {"gs://a:b@c/key", "no bucket has the name 'a:b@c'"},
      {"gs://bucket?x/key", "no bucket has the name 'bucket?x'"},
      {"gs://bu\ncket/key", "no bucket has the name 'bu\\ncket'"},
      {"gs://" + std::string(223, 'b') + "/key", "no bucket has the name 'bbbb"},
      {"gs://bucket/.", "no key is '.'"},
      {"gs://bucket/..", "no key is '..'"},
      {"gs://bucket/a\nb", "its key has a line end"},
      {"gs://bucket/\xff", "its key is no UTF-8"},
      {"gs://bucket/" + std::string(1025, 'k'), "its key has 1025 bytes, more than 1024"},
  };
  for (const auto& c : cases) {
    try {
      (void)parse_gcs_url(c.path);
      ADD_FAILURE() << c.path;
    } catch (const ErrorException& exception) {
      EXPECT_EQ(exception.error().code, ErrorCode::kInvalidArgument);
      EXPECT_THAT(exception.error().message, AllOf(HasSubstr("no URL of Google Cloud Storage"), HasSubstr(c.message)));
      EXPECT_EQ(exception.error().shard, c.path);
    }
  }
}

TEST(GcsUrl, IsAskedForByTheJsonApi) {
  const ObjectUrl object{.bucket = "bucket", .key = "train/a b+c%\xc3\xbc?.tfrecord"};
  const std::string url =
      "https://storage.googleapis.com/storage/v1/b/bucket/o/train%2Fa%20b%2Bc%25%C3%BC%3F.tfrecord?alt=media";
  EXPECT_EQ(gcs_media_url({}, object), url);
  EXPECT_EQ(gcs_media_url({}, object, "17"), url + "&generation=17&ifGenerationMatch=17");
  EXPECT_EQ(gcs_media_url({.user_project = "pays&more"}, object, "17"),
            url + "&generation=17&ifGenerationMatch=17&userProject=pays%26more");
  EXPECT_EQ(gcs_media_url({.endpoint = "http://127.0.0.1:9"}, {.bucket = "b-1", .key = "../k"}),
            "http://127.0.0.1:9/storage/v1/b/b-1/o/..%2Fk?alt=media");
}

TEST(GcsUrl, GoesToTheEmulatorOfTheEnvironment) {
  std::map<std::string, std::string> variables;
  const auto environment = [&](std::string_view name) {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  EXPECT_EQ(gcs_emulator(environment), std::nullopt);
  variables["STORAGE_EMULATOR_HOST"] = "";
  EXPECT_EQ(gcs_emulator(environment), std::nullopt);
  variables["CLOUD_STORAGE_EMULATOR_ENDPOINT"] = "https://emulator:8080//";
  EXPECT_EQ(gcs_emulator(environment), "https://emulator:8080");
  variables["STORAGE_EMULATOR_HOST"] = "localhost:9199";
  EXPECT_EQ(gcs_emulator(environment), "http://localhost:9199");
  for (const char* wrong : {"ftp://a", "http://", "https:///", "http://a?b", "http://a b", "a\nb"}) {
    variables["STORAGE_EMULATOR_HOST"] = wrong;
    try {
      (void)gcs_emulator(environment);
      ADD_FAILURE() << wrong;
    } catch (const ErrorException& exception) {
      EXPECT_THAT(exception.what(), HasSubstr("STORAGE_EMULATOR_HOST is no URL of http or https: '"));
    }
  }
  for (const char* with_password : {"http://user:hidden@host", "user:hidden@host:80", "http://user:hid/den@host"}) {
    variables["STORAGE_EMULATOR_HOST"] = with_password;
    try {
      (void)gcs_emulator(environment);
      ADD_FAILURE() << with_password;
    } catch (const ErrorException& exception) {
      EXPECT_EQ(exception.error().message, "STORAGE_EMULATOR_HOST may name no user or password");
    }
  }
}

}  // namespace
}  // namespace millrace::gcs_url_test
