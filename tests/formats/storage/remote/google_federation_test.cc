// Service accounts that are impersonated, and external accounts, whose subject tokens are exchanged.
#include <string>
#include <utility>
#include <vector>

#include "millrace/formats/storage/remote/google_credentials.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "tests/formats/storage/remote/fetch.h"
#include "tests/formats/storage/remote/google_client.h"
#include "tests/formats/storage/remote/google_credentials_fixture.h"

namespace millrace::google_federation_test {
namespace {

using test::GoogleFault;
using test::GoogleRequest;
using test::kMark;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;
using Kind = GoogleFault::Kind;
using Json = nlohmann::json;

constexpr const char* kAudience =
    "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q";

class FederatedGoogleCredentials : public test::GoogleCredentialsTest {
 protected:
  void serve(test::GoogleServerOptions options = {}) {
    options.audience = kAudience;
    options.subject_token = subject();
    GoogleCredentialsTest::serve(std::move(options));
  }
  // Of a provider, as JSON Web Tokens are.
  static std::string subject() { return fmt::format("{}head.{}claims.{}+signature", kMark, kMark, kMark); }
  Json impersonated(const Json& source) const {
    return {{"type", "impersonated_service_account"},
            {"service_account_impersonation_url", server_->impersonation_url()},
            {"delegates", {"projects/-/serviceAccounts/between@project.iam.gserviceaccount.com"}},
            {"quota_project_id", "project-2"},
            {"source_credentials", source}};
  }
  Json external(const Json& credential_source) const {
    return {{"type", "external_account"},
            {"audience", kAudience},
            {"subject_token_type", "urn:ietf:params:oauth:token-type:jwt"},
            {"token_url", server_->token_uri()},
            {"credential_source", credential_source}};
  }
  Json external_impersonated(const Json& credential_source) const {
    Json file = external(credential_source);
    file["service_account_impersonation_url"] = server_->impersonation_url();
    return file;
  }
  Json in_file() const { return {{"file", write("subject", subject() + "\n")}}; }
  Json at_url() const { return {{"url", server_->endpoint() + "/subject"}, {"headers", {{"Metadata", "true"}}}}; }
  std::string impersonation_path() const { return server_->impersonation_url().substr(server_->endpoint().size()); }
  // One of each kind.
  std::vector<Json> all() const {
    return {impersonated(user()), impersonated(account()), external(in_file()), external_impersonated(at_url()),
            impersonated(external(in_file()))};
  }
};

TEST_F(FederatedGoogleCredentials, OfAnImpersonatedAccountAreAskedForWithThoseOfItsSource) {
  serve();
  for (const Json& source : {user(), account()}) {
    const std::string path = write("impersonated.json", impersonated(source));
    const Fetched token = get_once({.file = path, .read_only = true});
    ASSERT_TRUE(token.value) << token.error;
    EXPECT_THAT(token.value->access_token, StartsWith(fmt::format("ya29.{}token-", kMark)));
    EXPECT_THAT(token.value->source,
                AllOf(StartsWith("service account trainer@project.iam.gserviceaccount.com impersonated by the "),
                      HasSubstr(path)));
    EXPECT_EQ(token.value->quota_project, "project-2");
    EXPECT_GT(*token.ends, clock_->wall_now() + std::chrono::minutes(59));
    EXPECT_LE(*token.ends, clock_->wall_now() + std::chrono::hours(1));
    const GoogleRequest asked = this->asked(impersonation_path()).back();
    EXPECT_EQ(asked.method, "POST");
    EXPECT_EQ(Json::parse(asked.body),
              (Json{{"scope", {"https://www.googleapis.com/auth/devstorage.read_only"}},
                    {"lifetime", "3600s"},
                    {"delegates", {"projects/-/serviceAccounts/between@project.iam.gserviceaccount.com"}}}));
  }
}

TEST_F(FederatedGoogleCredentials, OfAnExternalAccountAreExchangedForItsSubjectToken) {
  serve();
  Json json_in_file = {{"file", write("subject.json", Json{{"id", subject()}})},
                       {"format", {{"type", "json"}, {"subject_token_field_name", "id"}}}};
  Json json_at_url = at_url();
  json_at_url["url"] = server_->endpoint() + "/subject?json";
  json_at_url["format"] = {{"type", "json"}, {"subject_token_field_name", "value"}};
  for (const Json& source : {in_file(), json_in_file, at_url(), json_at_url}) {
    const std::string path = write("external.json", external(source));
    const Fetched token = get_once({.file = path});
    ASSERT_TRUE(token.value) << token.error;
    EXPECT_THAT(token.value->access_token, StartsWith(fmt::format("ya29.{}token-", kMark)));
    EXPECT_EQ(token.value->source, "external account of " + path);
    EXPECT_THAT(asked("/token").back().body, HasSubstr("devstorage.read_write"));
    EXPECT_EQ(asked("/token").back().headers.count("authorization"), 0U);
  }
  EXPECT_THAT(asked(impersonation_path()), SizeIs(0));
}

TEST_F(FederatedGoogleCredentials, OfAnExternalAccountMayImpersonateAnotherForAsLongAsTheirFileSays) {
  serve({.token_life = std::chrono::seconds(1800)});
  Json file = external_impersonated(at_url());
  file["service_account_impersonation"] = {{"token_lifetime_seconds", 1800}};
  file["client_id"] = "client";
  file["client_secret"] = kMark;
  const std::string path = write("external.json", file);
  const Fetched token = get_once({.file = path});
  ASSERT_TRUE(token.value) << token.error;
  EXPECT_EQ(token.value->source,
            "service account trainer@project.iam.gserviceaccount.com impersonated by the external account of " + path);
  EXPECT_LE(*token.ends, clock_->wall_now() + std::chrono::minutes(30));
  EXPECT_THAT(asked("/token").back().headers.at("authorization"), StartsWith("Basic "));
  EXPECT_THAT(asked(impersonation_path()), SizeIs(1));
}

// The tokens end in mid-run.
TEST_F(FederatedGoogleCredentials, AreUsedInReadsAndRenewed) {
  serve();
  const std::string content = test::content_of(200'000);
  server_->put("bucket", "a", content);
  for (const Json& file : all()) {
    RemoteOptions options = test::google_options(*server_);
    options.engine = engine_;
    options.gcs.credentials.file = write("file.json", file);
    RemoteStorage storage(std::move(options));
    for (int i = 0; i < 3; ++i) {
      const size_t before = asked("/token").size();
      const test::Fetched fetched = test::fetch(storage, "gs://bucket/a");
      ASSERT_FALSE(fetched.error) << fetched.error->to_string();
      EXPECT_TRUE(fetched.bytes == content);
      EXPECT_EQ(asked("/token").size() - before, i == 1 ? 0U : 1U);
      if (i == 1) clock_->turn(std::chrono::minutes(61));
    }
  }
}

TEST_F(FederatedGoogleCredentials, AreRenewedBeforeTheyEnd) {
  serve();
  for (const Json& file : all()) {
    const auto tokens = make({.file = write("file.json", file)});
    const Fetched first = get(*tokens);
    ASSERT_TRUE(first.value) << first.error;
    clock_->turn(std::chrono::minutes(56));
    EXPECT_EQ(get(*tokens).value, first.value) << "while the next one is asked for";
    Fetched next = get(*tokens);
    while (next.value == first.value) next = get(*tokens);
    EXPECT_NE(next.value->access_token, first.value->access_token);
  }
}

// As Kubernetes exchanges it.
TEST_F(FederatedGoogleCredentials, AreOfTheSubjectTokenThatIsInTheFileNow) {
  serve();
  const Json file = external(in_file());
  write("subject", fmt::format("{}another", kMark));
  const std::string path = write("external.json", file);
  const auto tokens = make({.file = path});
  EXPECT_EQ(get(*tokens).error,
            fmt::format("no access token for the external account of {}: {}: status 400 (invalid_grant): The given "
                        "credential is rejected by the attribute condition.",
                        path, server_->token_uri()));
  in_file();
  EXPECT_TRUE(get(*tokens).value);
}

TEST_F(FederatedGoogleCredentials, ThatAreRefusedAreOneErrorThatNamesWhoWasAsked) {
  serve();
  Json other = impersonated(user());
  const std::string url = server_->endpoint() + "/v1/projects/-/serviceAccounts/other@example.org:generateAccessToken";
  other["service_account_impersonation_url"] = url;
  const std::string path = write("other.json", other);
  EXPECT_EQ(get_once({.file = path}).error,
            fmt::format("no access token for the service account other@example.org impersonated by the user of {}: {}: "
                        "status 403 (forbidden): Permission 'iam.serviceAccounts.getAccessToken' denied",
                        path, url));
  const auto error_of = [&](const Json& source) {
    return get_once({.file = write("external.json", external(source))}).error;
  };
  const std::string none = folder_.path("none");
  EXPECT_THAT(error_of({{"file", none}}), HasSubstr(": " + none + ": there is no such file"));
  EXPECT_THAT(error_of({{"file", write("blank", std::string(" \n"))}}), HasSubstr("the subject token is empty"));
  EXPECT_THAT(error_of({{"url", fmt::format("{}/none?{}", server_->endpoint(), kMark)}}),
              HasSubstr(server_->endpoint() + "/none?...: status 404: Not Found"));
  const Json as_json{{"type", "json"}, {"subject_token_field_name", "value"}};
  EXPECT_THAT(error_of({{"file", write("empty.json", Json::object())}, {"format", as_json}}),
              HasSubstr("what holds the subject token has no 'value'"));
  EXPECT_THAT(error_of({{"file", write("list.json", Json{kMark})}, {"format", as_json}}),
              HasSubstr("what holds the subject token is no object of JSON"));
}

TEST_F(FederatedGoogleCredentials, OfWrongAnswersOfIamAreNotTaken) {
  const struct {
    std::string body;
    std::string message;
  } cases[] = {
      {fmt::format(R"({{"accessToken": "{}"}})", kMark), "does not say when the token ends"},
      {fmt::format(R"({{"accessToken": "{}", "expireTime": "{}"}})", kMark, kMark), "does not say when"},
      {fmt::format(R"({{"accessToken": "{}", "expireTime": "2020-01-01T00:00:00Z"}})", kMark), "that has ended"},
      {fmt::format(R"({{"access_token": "{}", "expires_in": 3600}})", kMark), "has no 'accessToken'"},
      {fmt::format(R"({{"accessToken": "{} ", "expireTime": "2030-01-01T00:00:00Z"}})", kMark), "that is none"},
  };
  for (const auto& c : cases) {
    serve({.fault = [&](const GoogleRequest& request) {
      const bool is_iam = request.target.ends_with(":generateAccessToken");
      return is_iam ? GoogleFault{.kind = Kind::kAnswer, .body = c.body} : GoogleFault();
    }});
    EXPECT_THAT(get_once({.file = write("file.json", impersonated(user()))}).error,
                AllOf(HasSubstr(c.message), HasSubstr(server_->impersonation_url())));
  }
}

// Each server repeats all that it was sent.
TEST_F(FederatedGoogleCredentials, AreNotRepeatedFromAnswers) {
  int num_errors = 0;
  for (const bool as_json : {false, true}) {
    for (const uint64_t number : {0, 1, 2}) {
      for (size_t kind = 0; kind < 5; ++kind) {
        serve({.fault = [&](const GoogleRequest& request) {
          std::string said = percent_decoded(request.body) + request.body + request.target;
          for (const auto& [name, value] : request.headers) {
            said += fmt::format("; {}: {}, {}", name, value, value.substr(value.rfind(' ') + 1));
          }
          const Json error{{"error", "invalid_request"}, {"error_description", said}};
          return GoogleFault{.kind = request.number == number ? Kind::kAnswer : Kind::kNone,
                             .status = 403,
                             .body = as_json ? error.dump() : said};
        }});
        Json file = all()[kind];
        if (kind == 3) {
          Json& source = file["credential_source"];
          source["headers"]["Authorization"] = fmt::format("bearer {}of.it", kMark);
          auto url = source["url"].get<std::string>();
          url += url.find('?') == std::string::npos ? "?" : "&";
          source["url"] = fmt::format("{}key={}", url, kMark);
        }
        const Fetched token = get_once({.file = write("file.json", file)});
        if (token.value) continue;
        EXPECT_THAT(token.error, HasSubstr("status 403"));
        ++num_errors;
      }
    }
  }
  EXPECT_EQ(num_errors, 2 * (2 + 2 + 1 + 3 + 2)) << "one for each request of each kind";
}

TEST_F(FederatedGoogleCredentials, ThatCannotBeReadAreOneLine) {
  serve();
  const auto changed = [](Json file, const char* field, const Json& value) {
    file[field] = value;
    return file;
  };
  const Json good = external_impersonated(in_file());
  const auto of_source = [&](const Json& source) { return changed(good, "credential_source", source); };
  const std::string only_from = "subject tokens are taken only from a 'file' or a 'url'";
  const Json at_example{{"url", "https://example.org/"}};
  const struct {
    Json file;
    std::string message;
  } cases[] = {
      {of_source({{"environment_id", "aws1"}, {"url", "http://169.254.169.254/"}}),
       "its 'credential_source' has 'environment_id': " + only_from},
      {of_source({{"executable", {{"command", kMark}}}}), "its 'credential_source' has 'executable': " + only_from},
      {of_source(Json::object()), "its 'credential_source' has no 'url'"},
      {of_source(kMark), "its field 'credential_source' is no object of JSON"},
      {of_source({{"url", fmt::format("http://example.org/{}", kMark)}}), "'url' of subject tokens is no URL of https"},
      {of_source(changed(at_example, "headers", {{"A B", kMark}})), "its 'headers' are no fields of HTTP"},
      {of_source(changed(at_example, "headers", {{"A", "b\r\nc: d"}})), "its 'headers' are no fields of HTTP"},
      {of_source(changed(at_example, "headers", {{"A", 5}})), "its field 'headers' is no text"},
      {of_source(changed(at_example, "headers", Json::array({kMark}))), "its field 'headers' is no object of JSON"},
      {of_source(changed(at_example, "format", {{"type", "json"}})), "its 'format' has no 'subject_token_field_name'"},
      {of_source(changed(at_example, "format", {{"type", "xml"}})), "neither 'text' nor 'json'"},
      {changed(good, "audience", nullptr), "it has no 'audience'"},
      {changed(good, "token_url", "http://example.org/token"), "its 'token_url' is no URL of https"},
      {changed(good, "service_account_impersonation_url", "http://example.org/a:generateAccessToken"),
       "its 'service_account_impersonation_url' is no URL of https"},
      {changed(good, "service_account_impersonation_url", "https://example.org/a:generateIdToken"), "names no account"},
      {changed(good, "service_account_impersonation", {{"token_lifetime_seconds", 5}}), "no number from 600 to 43200"},
      {changed(impersonated(user()), "delegates", kMark), "its field 'delegates' is no list"},
      {changed(impersonated(user()), "source_credentials", nullptr), "it has no 'source_credentials'"},
      {impersonated(good), "its 'source_credentials' impersonate an account themselves"},
      {impersonated({{"type", "user"}, {"token", kMark}}), "they are of the type \"user\", of which nothing is known"},
  };
  for (const auto& c : cases) {
    const std::string path = write("bad.json", c.file);
    EXPECT_THAT(get_once({.file = path}).error, AllOf(HasSubstr(c.message), HasSubstr(path)));
  }
  EXPECT_THAT(server_->requests(), SizeIs(0));
}

}  // namespace
}  // namespace millrace::google_federation_test
