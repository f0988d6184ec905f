#include "tests/formats/storage/remote/s3_client.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "tests/formats/storage/remote/fetch.h"

namespace millrace::test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const AwsCredentials& marked_credentials() {
  static const AwsCredentials credentials{
      .access_key_id = "AKIAMARKEDKEY", .secret_access_key = "marked/secret+key", .session_token = "marked+token/0=="};
  return credentials;
}

S3ServiceOptions marked_service() {
  return {.access_key_id = marked_credentials().access_key_id,
          .secret_access_key = marked_credentials().secret_access_key,
          .session_token = marked_credentials().session_token};
}

RemoteOptions s3_options(const ObjectServer& server) {
  RemoteOptions options = hasty();
  options.s3 = {.endpoint = server.url(""), .credentials = marked_credentials()};
  options.listed = std::make_shared<ListedObjects>();
  options.environment = [](std::string_view) { return std::nullopt; };
  return options;
}

std::map<std::string, std::string> aws_variables(const ObjectServer& server) {
  return {{"AWS_ENDPOINT_URL", server.url("")},
          {"AWS_ACCESS_KEY_ID", marked_credentials().access_key_id},
          {"AWS_SECRET_ACCESS_KEY", marked_credentials().secret_access_key},
          {"AWS_SESSION_TOKEN", marked_credentials().session_token}};
}

namespace {

void expect_no_secret(const std::string& text) {
  EXPECT_THAT(text, AllOf(Not(HasSubstr(marked_credentials().access_key_id)), Not(HasSubstr("marked"))));
}

}  // namespace

std::string error_of(const RemoteOptions& options, const std::string& url) {
  RemoteStorage storage(options);
  const Fetched fetched = fetch(storage, url);
  if (!fetched.error) return "no error";
  EXPECT_EQ(fetched.error->shard, url);
  expect_no_secret(fetched.error->to_string());
  return fetched.error->message;
}

std::string error_of_glob(const RemoteOptions& options, const std::string& pattern) {
  RemoteStorage storage(options);
  try {
    (void)storage.glob(pattern);
  } catch (const ErrorException& exception) {
    EXPECT_EQ(exception.error().shard, pattern);
    expect_no_secret(exception.what());
    return exception.error().message;
  }
  return "no error";
}

}  // namespace millrace::test
