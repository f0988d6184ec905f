#include <atomic>
#include <string>

#include "millrace/formats/storage/remote/google_credentials.h"
#include "tests/formats/storage/remote/google_credentials_fixture.h"

namespace millrace::google_credentials_faults_test {
namespace {

using test::GoogleFault;
using test::GoogleRequest;
using test::kMark;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Kind = GoogleFault::Kind;

constexpr const char* kMetadata = "/computeMetadata/v1/instance/service-accounts/default/token";

class RefusedGoogleCredentials : public test::GoogleCredentialsTest {};

TEST_F(RefusedGoogleCredentials, ThatTheServerDoesNotKnowAreOneError) {
  serve();
  nlohmann::json other = account();
  other["private_key"] = test::make_rsa_key().private_key;
  const std::string path = write("account.json", other);
  variables_["GOOGLE_APPLICATION_CREDENTIALS"] = path;
  EXPECT_EQ(get_once().error,
            fmt::format("no access token for the service account reader@project.iam.gserviceaccount.com of {}: {}: "
                        "status 400 (invalid_grant): Invalid JWT Signature.",
                        path, server_->token_uri()));
  EXPECT_EQ(asked("/token").size(), 1U) << "not asked again";

  nlohmann::json revoked = user();
  revoked["refresh_token"] = fmt::format("1//{}old", kMark);
  EXPECT_THAT(get_once({.file = write("user.json", revoked)}).error,
              HasSubstr("status 400 (invalid_grant): Token has been expired or revoked."));
}

TEST_F(RefusedGoogleCredentials, OfAServerThatIsNoMetadataServerAreNotTaken) {
  for (const char* flavor : {"", "Another"}) {
    serve({.fault = [&](const GoogleRequest&) {
      GoogleFault fault{.kind = Kind::kAnswer,
                        .body = fmt::format(R"({{"access_token": "{}", "expires_in": 3600}})", kMark)};
      if (*flavor != '\0') fault.headers["Metadata-Flavor"] = flavor;
      return fault;
    }});
    const Fetched token = get_once();
    ASSERT_TRUE(token.value) << token.error;
    EXPECT_EQ(token.value->access_token, "");
    EXPECT_THAT(token.value->source, HasSubstr("(what answers is none)"));
  }
}

TEST_F(RefusedGoogleCredentials, OfAMetadataServerThatHangsAreWaitedForTwoSeconds) {
  serve({.fault = [](const GoogleRequest&) { return GoogleFault{.kind = Kind::kHang}; }});
  const auto before = clock_->now();
  const auto tokens = make();
  const Fetched token = get(*tokens, std::chrono::milliseconds(10));
  ASSERT_TRUE(token.value) << token.error;
  EXPECT_EQ(token.value->access_token, "");
  EXPECT_THAT(token.value->source, HasSubstr("(no answer came in time)"));
  EXPECT_GE(clock_->now() - before, std::chrono::seconds(2));
  EXPECT_LE(clock_->now() - before, std::chrono::seconds(3));
  EXPECT_EQ(asked(kMetadata).size(), 2U);
}

TEST_F(RefusedGoogleCredentials, OfATokenEndpointThatHangsEndInAnError) {
  serve({.fault = [](const GoogleRequest&) { return GoogleFault{.kind = Kind::kHang}; }});
  const auto before = clock_->now();
  const auto tokens = make({.file = write("user.json", user())});
  const Fetched token = get(*tokens, std::chrono::milliseconds(50));
  EXPECT_THAT(token.error, AllOf(StartsWith("no access token for the user of "), HasSubstr("no answer came in time"),
                                 HasSubstr("attempts)")));
  EXPECT_LE(clock_->now() - before, std::chrono::seconds(130));
}

TEST_F(RefusedGoogleCredentials, AreAskedForAgainWhereTheServerIsBusy) {
  for (const GoogleFault& fault : {GoogleFault{.kind = Kind::kReset}, GoogleFault{.kind = Kind::kAnswer, .status = 503},
                                   GoogleFault{.kind = Kind::kAnswer, .status = 429}}) {
    serve({.fault = [&](const GoogleRequest& request) { return request.number < 2 ? fault : GoogleFault(); }});
    const Fetched token = get_once({.file = write("account.json", account())});
    ASSERT_TRUE(token.value) << token.error;
    EXPECT_GE(server_->requests().size(), 3U);
  }
}

// A machine that has given tokens does not become anonymous when its metadata server is away.
TEST_F(RefusedGoogleCredentials, OfAMetadataServerThatIsAwayAreAnError) {
  std::atomic<bool> is_away = false;
  serve({.fault = [&](const GoogleRequest&) { return is_away ? GoogleFault{.kind = Kind::kReset} : GoogleFault(); }});
  const auto tokens = make();
  ASSERT_TRUE(get(*tokens).value);
  is_away = true;
  clock_->turn(std::chrono::minutes(61));
  EXPECT_THAT(get(*tokens, std::chrono::seconds(1)).error,
              StartsWith("no access token of the metadata server " + server_->host()));
  is_away = false;
  EXPECT_TRUE(get(*tokens, std::chrono::seconds(1)).value);
}

TEST_F(RefusedGoogleCredentials, ThatCannotBeReadAreOneLine) {
  serve();
  nlohmann::json without_key = account();
  without_key.erase("private_key");
  nlohmann::json broken_key = account();
  broken_key["private_key"] = fmt::format("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", kMark);
  nlohmann::json plain = user();
  plain["token_uri"] = "http://oauth2.example.org/token";
  nlohmann::json with_password = user();
  with_password["token_uri"] = fmt::format("https://user:{}@example.org/token", kMark);
  nlohmann::json number = user();
  number["refresh_token"] = 5;
  nlohmann::json unknown{{"type", "gdch_service_account"}, {"private_key", kMark}};
  const std::string key_error = "the private key is no RSA key in PEM without a password";
  const struct {
    std::string text;
    std::string message;
  } cases[] = {
      {fmt::format("{{\"type\": {}", kMark), "cannot read the Google credentials: not JSON (byte 10)"},
      {"[]", "it is no object of JSON"},
      {"{}", "it has no 'type'"},
      {unknown.dump(), "they are of the type \"gdch_service_account\", of which nothing is known here"},
      {without_key.dump(), "it has no 'private_key'"},
      {broken_key.dump(), key_error},
      {plain.dump(), "its 'token_uri' is no URL of https"},
      {with_password.dump(), "its 'token_uri' is no URL of https"},
      {number.dump(), "its field 'refresh_token' is no text"},
      {std::string(2 << 20, ' '), "it has more than 1048576 bytes"},
  };
  for (const auto& c : cases) {
    const std::string path = write("bad.json", c.text);
    variables_["GOOGLE_APPLICATION_CREDENTIALS"] = path;
    EXPECT_THAT(get_once().error, AllOf(HasSubstr(c.message), HasSubstr(path)));
  }
  variables_["GOOGLE_APPLICATION_CREDENTIALS"] = folder_.path("none.json");
  EXPECT_THAT(get_once().error, AllOf(HasSubstr("cannot read the Google credentials"), HasSubstr("none.json")));
  variables_["GOOGLE_APPLICATION_CREDENTIALS"] = folder_.path();
  EXPECT_THAT(get_once().error, HasSubstr("Is a directory"));
  EXPECT_EQ(server_->requests().size(), 0U);
}

TEST_F(RefusedGoogleCredentials, OfWrongAnswersAreNotTaken) {
  const std::string long_token(20 << 10, 'a');
  const struct {
    GoogleFault fault;
    std::string message;
  } cases[] = {
      {{.body = fmt::format(R"({{"access_token": "{}"}})", kMark)}, "does not say when the token ends"},
      {{.body = fmt::format(R"({{"access_token": "{}", "expires_in": -1}})", kMark)}, "does not say when"},
      {{.body = fmt::format(R"({{"access_token": "{}", "expires_in": "{}"}})", kMark, kMark)}, "does not say when"},
      {{.body = fmt::format(R"({{"access_token": "{}\r\nX: y", "expires_in": 9}})", kMark)}, "that is none"},
      {{.body = R"({"access_token": "", "expires_in": 9})"}, "that is none"},
      {{.body = fmt::format(R"({{"access_token": "{}{}", "expires_in": 9}})", kMark, long_token)}, "that is none"},
      {{.body = fmt::format(R"({{"token": "{}"}})", kMark)}, "has no 'access_token'"},
      {{.body = fmt::format(R"(["{}"])", kMark)}, "is no object of JSON"},
      {{.body = kMark}, "is no JSON"},
      {{.status = 403, .body = "<html>\n<b>denied</b></html>\n"}, "status 403: <html>\\n<b>denied</b></html>"},
      {{.status = 400, .body = R"({"error": {"code": 400}})"}, "status 400"},
  };
  for (const auto& c : cases) {
    serve({.fault = [&](const GoogleRequest& request) {
      GoogleFault fault = c.fault;
      fault.kind = Kind::kAnswer;
      if (request.target == kMetadata) fault.headers["Metadata-Flavor"] = "Google";
      return fault;
    }});
    EXPECT_THAT(get_once({.file = write("account.json", account())}).error, HasSubstr(c.message));
    EXPECT_THAT(get_once().error, HasSubstr(c.message));
  }
}

// A server that repeats what it was sent, in each form that it may have.
TEST_F(RefusedGoogleCredentials, AreNotRepeatedFromAnswers) {
  for (const bool as_json : {false, true}) {
    serve({.fault = [&](const GoogleRequest& request) {
      std::string said = request.body;
      if (said.find("client_secret") != std::string::npos) {
        said += fmt::format(" and GOCSPX/{}+client and 1//{}refresh", kMark, kMark);
      }
      const nlohmann::json error{{"error", "invalid_request"}, {"error_description", said}};
      return GoogleFault{.kind = Kind::kAnswer, .status = 400, .body = as_json ? error.dump() : said};
    }});
    EXPECT_THAT(get_once({.file = write("user.json", user())}).error, HasSubstr("client_secret=..."));
    const std::string error = get_once({.file = write("account.json", account())}).error;
    EXPECT_THAT(error, HasSubstr("assertion=..."));
    EXPECT_THAT(error, Not(HasSubstr("eyJ")));
  }
}

}  // namespace
}  // namespace millrace::google_credentials_faults_test
