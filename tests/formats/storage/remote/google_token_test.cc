#include "millrace/formats/storage/remote/google_token.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/base64.h"
#include "tests/formats/storage/remote/google_server.h"

namespace millrace::google_token_test {
namespace {

using testing::StartsWith;
using Type = GoogleCredentialsFile::Type;

nlohmann::json decoded(std::string part) {
  std::ranges::replace(part, '-', '+');
  std::ranges::replace(part, '_', '/');
  while (part.size() % 4 != 0) part += '=';
  return nlohmann::json::parse(decode_base64(part).value());
}

TEST(GoogleToken, IsAskedForWithTheClaimsOfAServiceAccount) {
  const GoogleCredentialsFile file{.token_uri = "https://oauth2.googleapis.com/token",
                                   .client_email = "761326798069-r5mljlln1rd4lrbhg75efgigp36m78j5@example.org",
                                   .private_key = test::make_rsa_key().private_key,
                                   .private_key_id = "370ab79b4513eb9bad7c9bd16a95cb76b5b2a56a"};
  const std::string scope = "https://www.googleapis.com/auth/devstorage.read_only";
  // The times of the example of https://developers.google.com/identity/protocols/oauth2/service-account.
  const std::chrono::system_clock::time_point now{std::chrono::seconds(1328550785)};
  const std::string form = google_token_form(file, scope, now + std::chrono::milliseconds(999));
  const std::string start = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
  ASSERT_THAT(form, StartsWith(start));
  const std::string token = form.substr(start.size());
  const size_t first = token.find('.');
  const size_t second = token.find('.', first + 1);
  EXPECT_EQ(decoded(token.substr(0, first)),
            (nlohmann::json{{"alg", "RS256"}, {"typ", "JWT"}, {"kid", file.private_key_id}}));
  EXPECT_EQ(decoded(token.substr(first + 1, second - first - 1)), (nlohmann::json{{"iss", file.client_email},
                                                                                  {"scope", scope},
                                                                                  {"aud", file.token_uri},
                                                                                  {"exp", 1328554385},
                                                                                  {"iat", 1328550785}}));
}

TEST(GoogleToken, IsAskedForWithTheRefreshTokenOfAUser) {
  const GoogleCredentialsFile file{
      .type = Type::kAuthorizedUser, .client_id = "id", .client_secret = "a+b&c", .refresh_token = "1//0=d e"};
  EXPECT_EQ(google_token_form(file, "scope", {}),
            "grant_type=refresh_token&client_id=id&client_secret=a%2Bb%26c&refresh_token=1%2F%2F0%3Dd%20e");
}

// RFC 8693, 2.1.
TEST(GoogleToken, IsExchangedForASubjectToken) {
  GoogleCredentialsFile file{.type = Type::kExternalAccount,
                             .audience = "//iam.googleapis.com/p/q",
                             .subject_token_type = "urn:ietf:params:oauth:token-type:jwt"};
  const std::string form =
      "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&audience=%2F%2Fiam.googleapis.com%2Fp%2Fq"
      "&scope=a%20scope&requested_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token"
      "&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt";
  EXPECT_EQ(google_token_form(file, "a scope", {}, "a+b"), form + "&subject_token=a%2Bb");
  file.user_project = "p1";
  EXPECT_EQ(google_token_form(file, "a scope", {}, "a"),
            form + "&options=%7B%22userProject%22%3A%22p1%22%7D&subject_token=a");
  file.client_id = "client";
  EXPECT_EQ(google_token_form(file, "a scope", {}, "a"), form + "&subject_token=a");
}

TEST(GoogleToken, OfAnImpersonatedAccountLivesUntilItsTime) {
  const std::chrono::system_clock::time_point now = std::chrono::sys_days(std::chrono::year(2026) / 11 / 28);
  const auto answer_until = [&](const std::string& time) {
    return parse_impersonated_token(R"({"accessToken": "a", "expireTime": ")" + time + "\"}", now);
  };
  EXPECT_EQ(answer_until("2026-11-28T01:00:00Z").expires_in, std::chrono::hours(1));
  EXPECT_EQ(answer_until("2026-11-28T00:00:01.945123456Z").expires_in, std::chrono::seconds(1));
  EXPECT_EQ(answer_until("2027-11-28T01:00:00Z").expires_in, std::chrono::hours(24));
  EXPECT_EQ(answer_until("2026-11-28T01:00:00Z").access_token, "a");
}

TEST(GoogleToken, LivesADayAtMost) {
  // RFC 6749, 5.1.
  const GoogleTokenAnswer answer = parse_google_token(
      R"({"access_token": "2YotnFZFEjr1zCsicMWpAA", "token_type": "example", "expires_in": 3600, "scope": null})");
  EXPECT_EQ(answer.access_token, "2YotnFZFEjr1zCsicMWpAA");
  EXPECT_EQ(answer.expires_in, std::chrono::hours(1));
  for (const char* life : {"86401", "4294967296", "9223372036854775807"}) {
    EXPECT_EQ(parse_google_token(R"({"access_token": "a", "expires_in": )" + std::string(life) + "}").expires_in,
              std::chrono::hours(24));
  }
}

TEST(GoogleToken, IsOfTheUsualEndpointWhereAFileNamesNone) {
  const auto file = parse_google_credentials(
      R"({"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"})", "f.json");
  EXPECT_EQ(file.token_uri, "https://oauth2.googleapis.com/token");
  EXPECT_EQ(file.quota_project, "");
}

}  // namespace
}  // namespace millrace::google_token_test
