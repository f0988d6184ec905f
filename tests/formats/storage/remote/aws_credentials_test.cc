#include "millrace/formats/storage/remote/aws_credentials.h"

#include <filesystem>
#include <future>
#include <thread>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/aws_credential_sources.h"
#include "tests/formats/storage/remote/credential_server.h"
#include "tests/formats/storage/remote/manual_http_clock.h"
#include "tests/support/temporary_folder.h"

namespace millrace::aws_credentials_test {
namespace {

using test::CredentialAnswer;
using test::CredentialRequest;
using test::CredentialServer;
using test::ManualHttpClock;
using test::ServedCredentials;
using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Credentials = Refreshed<AwsCredentials>;
using Fetched = Credentials::Fetched;
using Fault = std::function<std::optional<CredentialAnswer>(const CredentialRequest&)>;
using Values = std::map<std::string, std::string, std::less<>>;

constexpr const char* kRole = "arn:aws:iam::123456789012:role/shard reader";

// A server of all sources, files of a home, an environment, and a clock that stands unless it is turned.
class AwsCredentialsTest : public ::testing::Test {
 public:
  AwsCredentialsTest() {
    std::filesystem::create_directory(folder_.path(".aws"));
    values_["HOME"] = folder_.path();
    values_["AWS_EC2_METADATA_DISABLED"] = "true";
    options_.environment = [this](std::string_view name) -> std::optional<std::string> {
      const auto found = values_.find(name);
      if (found == values_.end()) return std::nullopt;
      return found->second;
    };
  }

  CredentialServer& server() {
    if (server_ == nullptr) server_ = std::make_unique<CredentialServer>(fault_);
    return *server_;
  }
  void write_config(const std::string& text) const { test::write_file(folder_.path(".aws/config"), text); }
  void write_credentials(const std::string& text) const { test::write_file(folder_.path(".aws/credentials"), text); }

  // Each of these sets a source up.
  void set_environment() {
    values_["AWS_ACCESS_KEY_ID"] = "AKIDENVIRONMENT";
    values_["AWS_SECRET_ACCESS_KEY"] = "marked-secret-of-environment";
  }
  void set_web_identity() {
    write_token("marked-web-identity-token\n");
    values_["AWS_WEB_IDENTITY_TOKEN_FILE"] = folder_.path("token");
    values_["AWS_ROLE_ARN"] = kRole;
    values_["AWS_ENDPOINT_URL_STS"] = server().endpoint();
  }
  void write_token(const std::string& text) const { test::write_file(folder_.path("token"), text); }
  void set_profile() const {
    write_credentials("[default]\naws_access_key_id = AKIDPROFILE\naws_secret_access_key = marked-secret-of-profile\n");
  }
  void set_container() {
    values_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = server().endpoint() + "/container";
    values_["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "marked-container-token";
  }
  void set_instance() {
    values_.erase("AWS_EC2_METADATA_DISABLED");
    values_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = server().endpoint() + "/";
  }

  Credentials& credentials() {
    if (credentials_ == nullptr) {
      engine_ = std::make_shared<HttpEngine>(HttpEngineOptions{.clock = clock_});
      credentials_ = aws_credentials(engine_, options_);
    }
    return *credentials_;
  }
  std::future<Fetched> start() {
    const auto promise = std::make_shared<std::promise<Fetched>>();
    credentials().get([promise](const Fetched& fetched) { promise->set_value(fetched); });
    return promise->get_future();
  }
  // What it came to; `turns`: the clock runs meanwhile.
  Fetched finish(std::future<Fetched> future, bool turns = false) {
    using std::chrono::milliseconds;
    for (int i = 0; i < 30'000 && future.wait_for(milliseconds(1)) != std::future_status::ready; ++i) {
      if (turns) turn(milliseconds(100));
    }
    if (future.wait_for(milliseconds(0)) != std::future_status::ready) {
      ADD_FAILURE() << "nothing came";
      return {.error = "nothing came"};
    }
    Fetched fetched = future.get();
    EXPECT_EQ(fetched.value == nullptr, !fetched.error.empty());
    EXPECT_THAT(fetched.error, AllOf(Not(HasSubstr("marked")), Not(HasSubstr("\n"))));
    if (fetched.value != nullptr) {
      for (const std::string& text : fetched.value->looked_at) EXPECT_THAT(text, Not(HasSubstr("marked")));
    }
    return fetched;
  }
  // Until the engine has looked at the clock.
  void turn(std::chrono::nanoseconds by) {
    clock_->turn(by);
    const auto promise = std::make_shared<std::promise<void>>();
    engine_->call_after(std::chrono::nanoseconds(0), [promise] { promise->set_value(); });
    promise->get_future().wait();
  }
  Fetched get() { return finish(start()); }
  // Of a server that never answers, and how long it took from the first request on.
  std::pair<Fetched, std::chrono::nanoseconds> get_by_deadline() {
    const size_t before = server().requests().size();
    std::future<Fetched> future = start();
    while (server().requests().size() == before) std::this_thread::yield();
    const auto begin = clock_->now();
    Fetched fetched = finish(std::move(future), true);
    return {std::move(fetched), clock_->now() - begin};
  }
  // By an engine of the real clock: waits between attempts pass.
  Fetched get_by_real_clock() {
    const auto real = aws_credentials(std::make_shared<HttpEngine>(), options_);
    std::promise<Fetched> promise;
    real->get([&](const Fetched& fetched) { promise.set_value(fetched); });
    return finish(promise.get_future());
  }
  std::string source() {
    const Fetched fetched = get();
    return fetched.value != nullptr ? fetched.value->source : fetched.error;
  }

  const test::TemporaryFolder folder_;
  Values values_;
  Fault fault_ = nullptr;
  std::unique_ptr<CredentialServer> server_;
  const std::shared_ptr<ManualHttpClock> clock_ = std::make_shared<ManualHttpClock>();
  AwsCredentialOptions options_;
  std::shared_ptr<HttpEngine> engine_;
  std::shared_ptr<Credentials> credentials_;
};

TEST_F(AwsCredentialsTest, AreOfTheFirstSourceOfTheChainThatHasAny) {
  set_instance();
  set_container();
  set_profile();
  set_web_identity();
  set_environment();
  options_.given = AwsCredentials{.access_key_id = "AKIDGIVEN", .secret_access_key = "marked-given"};
  const auto next = [&] {
    credentials_ = nullptr;
    const Fetched fetched = get();
    EXPECT_NE(fetched.value, nullptr) << fetched.error;
    return fetched.value == nullptr ? AwsCredentials() : *fetched.value;
  };
  AwsCredentials found = next();
  EXPECT_EQ(found.source, "the options");
  EXPECT_EQ(found.access_key_id, "AKIDGIVEN");
  options_.given.reset();
  found = next();
  EXPECT_EQ(found.source, "environment");
  EXPECT_EQ(found.access_key_id, "AKIDENVIRONMENT");
  EXPECT_EQ(found.secret_access_key, "marked-secret-of-environment");
  values_.erase("AWS_ACCESS_KEY_ID");
  values_.erase("AWS_SECRET_ACCESS_KEY");
  found = next();
  EXPECT_EQ(found.source, "web identity (AWS_WEB_IDENTITY_TOKEN_FILE)");
  EXPECT_EQ(found.access_key_id, "AKIDEXAMPLE");
  values_.erase("AWS_WEB_IDENTITY_TOKEN_FILE");
  found = next();
  EXPECT_EQ(found.source, "profile default in ~/.aws/credentials");
  EXPECT_EQ(found.access_key_id, "AKIDPROFILE");
  write_credentials("");
  found = next();
  EXPECT_EQ(found.source, "the container (AWS_CONTAINER_CREDENTIALS_FULL_URI)");
  values_.erase("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  found = next();
  EXPECT_EQ(found.source, "instance metadata, role shard-reader");
  EXPECT_EQ(found.session_token, "marked-session-token");
  EXPECT_FALSE(found.is_anonymous());
  values_["AWS_EC2_METADATA_DISABLED"] = "TRUE";
  found = next();
  EXPECT_TRUE(found.is_anonymous());
  EXPECT_EQ(found.source, "anonymous");
  EXPECT_THAT(found.looked_at, ElementsAre("environment: AWS_ACCESS_KEY_ID is not set",
                                           "web identity: AWS_WEB_IDENTITY_TOKEN_FILE is not set",
                                           "profile default in ~/.aws/config and ~/.aws/credentials: there is none",
                                           "container: neither AWS_CONTAINER_CREDENTIALS_RELATIVE_URI nor "
                                           "AWS_CONTAINER_CREDENTIALS_FULL_URI is set",
                                           "instance metadata: AWS_EC2_METADATA_DISABLED is true"));
}

TEST_F(AwsCredentialsTest, OfTheEnvironmentComeInsideTheCallOrAreRefused) {
  set_environment();
  values_["AWS_SESSION_TOKEN"] = "marked-token";
  std::string token;
  credentials().get([&](const Fetched& fetched) { token = fetched.value->session_token; });
  EXPECT_EQ(token, "marked-token");
  credentials_ = nullptr;
  values_["AWS_SESSION_TOKEN"] = "marked\ntoken";
  EXPECT_EQ(source(),
            "no AWS credentials from environment: the session token has characters that no key has, such as a "
            "space");
  values_.erase("AWS_SECRET_ACCESS_KEY");
  EXPECT_EQ(source(), "no AWS credentials from environment: the secret access key is missing");
}

TEST_F(AwsCredentialsTest, OfAWebIdentityAreAskedOfStsUnsigned) {
  set_web_identity();
  values_["AWS_ROLE_SESSION_NAME"] = "a&b";
  ASSERT_NE(get().value, nullptr);
  const CredentialRequest request = server().requests().at(0);
  EXPECT_EQ(request.form.at("RoleArn"), kRole);
  EXPECT_EQ(request.form.at("RoleSessionName"), "a&b");
  EXPECT_FALSE(request.headers.contains("authorization"));

  // The token is read anew each time.
  write_token("marked-second-token");
  server().set({.access_key_id = "AKIDSECOND", .web_identity_token = "marked-second-token"});
  credentials().discard(get().value);
  const Fetched second = get();
  ASSERT_NE(second.value, nullptr) << second.error;
  EXPECT_EQ(second.value->access_key_id, "AKIDSECOND");
}

TEST_F(AwsCredentialsTest, OfAWebIdentityThatIsNotWholeAreAnError) {
  set_web_identity();
  const std::string begin = "no AWS credentials from web identity (AWS_WEB_IDENTITY_TOKEN_FILE): ";
  write_token("marked-other-token");
  EXPECT_EQ(source(), begin + "STS at http://127.0.0.1: status 400, InvalidIdentityToken: The token is another");
  write_token("marked\ntoken");
  EXPECT_THAT(source(), AllOf(StartsWith(begin), HasSubstr("has characters that no token has")));
  std::filesystem::remove(folder_.path("token"));
  EXPECT_EQ(source(), begin + "there is no file " + folder_.path("token"));
  values_["AWS_ENDPOINT_URL_STS"] = "ftp://marked";
  write_token("marked-token");
  EXPECT_EQ(source(), begin + "the endpoint of STS is no URL of http or https");
  values_.erase("AWS_ROLE_ARN");
  EXPECT_EQ(source(), begin + "AWS_ROLE_ARN is not set");
}

TEST_F(AwsCredentialsTest, AskStsOfTheRegion) {
  Values values;
  const Environment environment = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
  AwsProfile profile;
  EXPECT_EQ(sts_endpoint(environment, profile, ""), "https://sts.amazonaws.com");
  profile.region = "cn-north-1";
  EXPECT_EQ(sts_endpoint(environment, profile, ""), "https://sts.cn-north-1.amazonaws.com.cn");
  values["AWS_DEFAULT_REGION"] = "eu-west-1";
  EXPECT_EQ(sts_endpoint(environment, profile, ""), "https://sts.eu-west-1.amazonaws.com");
  values["AWS_REGION"] = "us-west-2";
  EXPECT_EQ(sts_endpoint(environment, profile, ""), "https://sts.us-west-2.amazonaws.com");
  EXPECT_EQ(sts_endpoint(environment, profile, "ap-south-1"), "https://sts.ap-south-1.amazonaws.com");
  EXPECT_THROW((void)sts_endpoint(environment, profile, "x.example.org/"), ErrorException);
  profile.endpoint_url = "http://profile";
  EXPECT_EQ(sts_endpoint(environment, profile, ""), "http://profile");
  profile.sts_endpoint_url = "http://services";
  EXPECT_EQ(sts_endpoint(environment, profile, ""), "http://services");
  values["AWS_ENDPOINT_URL"] = "http://all";
  EXPECT_EQ(sts_endpoint(environment, profile, ""), "http://all");
  values["AWS_ENDPOINT_URL_STS"] = "http://sts";
  EXPECT_EQ(sts_endpoint(environment, profile, ""), "http://sts");
}

TEST_F(AwsCredentialsTest, OfAProfileThatTheOptionsNameComeBeforeTheEnvironment) {
  set_environment();
  write_config(
      "[profile dev]\naws_access_key_id = AKIDDEV\naws_secret_access_key = marked\naws_session_token = marked\n");
  options_.profile = "dev";
  const Fetched fetched = get();
  ASSERT_NE(fetched.value, nullptr) << fetched.error;
  EXPECT_EQ(fetched.value->source, "profile dev in ~/.aws/config");
  EXPECT_EQ(fetched.value->access_key_id, "AKIDDEV");
  EXPECT_EQ(fetched.value->session_token, "marked");
  EXPECT_EQ(fetched.ends, std::nullopt);
}

TEST_F(AwsCredentialsTest, OfAProfileAreReadAnewAfterTheyWereRefused) {
  set_profile();
  const Fetched first = get();
  ASSERT_NE(first.value, nullptr);
  write_credentials("[default]\naws_access_key_id = AKIDNEW\naws_secret_access_key = marked-new\n");
  EXPECT_EQ(get().value, first.value);
  credentials().discard(first.value);
  EXPECT_EQ(get().value->access_key_id, "AKIDNEW");
}

TEST_F(AwsCredentialsTest, OfTheWebIdentityOfAProfileAreAskedOfSts) {
  write_token("marked-web-identity-token");
  write_config("[default]\nrole_arn = arn:of:profile\nrole_session_name = me\nweb_identity_token_file = " +
               folder_.path("token") +
               "\nservices = local\n[services local]\nsts =\n  endpoint_url = " + server().endpoint() + "\n");
  EXPECT_EQ(source(), "web identity of profile default in ~/.aws/config and ~/.aws/credentials");
  EXPECT_EQ(server().requests().at(0).form.at("RoleArn"), "arn:of:profile");
  EXPECT_EQ(server().requests().at(0).form.at("RoleSessionName"), "me");
}

TEST_F(AwsCredentialsTest, OfACredentialProcessAreWhatItWrites) {
  test::write_file(
      folder_.path("tool"),
      "echo '{\"Version\": 1, \"AccessKeyId\": \"'$1'\", \"SecretAccessKey\": \"marked\", \"SessionToken\": "
      "\"marked\", \"Expiration\": \"2026-11-28T12:30:00Z\"}'\n");
  write_config("[default]\ncredential_process = /bin/sh " + folder_.path("tool") + "\n   \"AKID PROCESS\"\n");
  EXPECT_THAT(source(), AllOf(StartsWith("no AWS credentials from credential_process of profile default in "),
                              HasSubstr("AccessKeyId has characters")));
  write_config("[default]\ncredential_process = /bin/sh " + folder_.path("tool") + "\n   AKIDPROCESS\n");
  const Fetched fetched = get();
  ASSERT_NE(fetched.value, nullptr) << fetched.error;
  EXPECT_EQ(fetched.value->source, "credential_process of profile default in ~/.aws/config and ~/.aws/credentials");
  EXPECT_EQ(fetched.value->access_key_id, "AKIDPROCESS");
  EXPECT_EQ(fetched.ends, clock_->wall_now() + std::chrono::minutes(30));
}

TEST_F(AwsCredentialsTest, OfACredentialProcessThatFailsAreAnErrorWithoutItsText) {
  const std::string begin = "no AWS credentials from credential_process of profile default in ";
  const auto failing = [&](const std::string& command) {
    write_config("[default]\ncredential_process = " + command + "\n");
    credentials_ = nullptr;
    return source();
  };
  EXPECT_THAT(failing("echo marked >&2; exit 255"), AllOf(StartsWith(begin), HasSubstr("it ended with status 255")));
  EXPECT_THAT(failing("echo marked"), AllOf(StartsWith(begin), HasSubstr("no JSON object")));
  EXPECT_THAT(failing("echo '{\"Version\": 1, \"AccessKeyId\": \"marked\", \"SecretAccessKey\": \"marked\", "
                      "\"Expiration\": \"2026-11-28T11:59:59Z\"}'"),
              AllOf(StartsWith(begin), HasSubstr("they have ended already")));
  options_.process_deadline = std::chrono::milliseconds(200);
  EXPECT_THAT(failing("sleep 1000 # marked"), AllOf(StartsWith(begin), HasSubstr("it was not done after 200 ms")));
}

TEST_F(AwsCredentialsTest, OfAProfileThatCannotBeUsedAreAnError) {
  write_config(
      "[profile dev]\nregion = eu-west-1\n[default]\nrole_arn = arn\nsource_profile = dev\n"
      "aws_access_key_id = marked\naws_secret_access_key = marked\n");
  EXPECT_EQ(source(),
            "no AWS credentials from profile default in ~/.aws/config and ~/.aws/credentials: its "
            "source_profile is not supported; give it credential_process = aws configure export-credentials "
            "--profile default --format process");
  write_config("[default]\nsso_session = a\n");
  EXPECT_THAT(source(), HasSubstr("its sso_session is not supported"));
  write_config("[default]\naws_access_key_id = marked\n");
  EXPECT_THAT(source(), HasSubstr("the secret access key is missing"));
  write_config("[default]\nmarked\n");
  EXPECT_THAT(source(), AllOf(StartsWith("no AWS credentials from the profile: cannot read "), HasSubstr("line 2")));
  values_["AWS_PROFILE"] = "none";
  write_config("");
  EXPECT_EQ(source(),
            "no AWS credentials from the profile: there is no profile 'none' (named by AWS_PROFILE) in "
            "~/.aws/config and ~/.aws/credentials");
  values_["AWS_PROFILE"] = "dev";
  write_config("[profile dev]\nregion = eu-west-1\n");
  EXPECT_EQ(source(), "anonymous");
}

TEST_F(AwsCredentialsTest, OfAContainerAreAskedWithItsToken) {
  options_.container_endpoint = server().endpoint();
  values_["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/container";
  values_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://marked.example.org/";
  values_["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "Basic marked";
  server().set({.container_authorization = "Basic marked"});
  EXPECT_EQ(source(), "the container (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI)");

  // The file comes first, and is read anew each time.
  values_["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = folder_.path("token");
  for (const char* token : {"marked-first", "marked-second"}) {
    write_token(token);
    server().set({.container_authorization = token});
    credentials().discard(get().value);
    EXPECT_EQ(source(), "the container (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI)");
    EXPECT_EQ(server().requests().back().headers.at("authorization"), token);
  }
  credentials_ = nullptr;
  server().set({.container_authorization = "another"});
  EXPECT_EQ(source(),
            "no AWS credentials from the container (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI): "
            "http://127.0.0.1: status 401, AccessDenied: The token is another");
}

TEST_F(AwsCredentialsTest, OfAContainerAreAskedOfTheMachineItselfOrByTls) {
  const std::string begin = "no AWS credentials from the container (AWS_CONTAINER_CREDENTIALS_FULL_URI): ";
  values_["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "marked-container-token";
  for (const char* host : {"example.org", "10.0.0.1", "169.254.170.3", "127.0.0.1.example.org", "[fd00:ec2::24]"}) {
    values_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = std::string("http://") + host + "/marked";
    EXPECT_EQ(source(), begin + "http://" + host + " is neither https nor an address of the machine itself");
  }
  values_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://127.0.0.1@example.org/marked";
  EXPECT_THAT(source(), HasSubstr("http://example.org is neither"));
  values_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "https://marked@example.org/";
  EXPECT_THAT(source(), HasSubstr("https://example.org is neither"));
  values_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "file:///marked";
  EXPECT_EQ(source(), begin + "it is no URL of http or https");
  values_["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "marked";
  EXPECT_THAT(source(), HasSubstr("it does not begin with /"));
  values_.erase("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  values_["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "marked\r\nX-Other: marked";
  EXPECT_THAT(source(), HasSubstr("AWS_CONTAINER_AUTHORIZATION_TOKEN has characters"));
}

TEST_F(AwsCredentialsTest, OfAnInstanceAreAskedByItsSecondVersion) {
  set_instance();
  const Fetched fetched = get();
  ASSERT_NE(fetched.value, nullptr) << fetched.error;
  EXPECT_EQ(fetched.ends, clock_->wall_now() + std::chrono::hours(1));
  std::vector<std::string> asked;
  for (const CredentialRequest& request : server().requests()) asked.push_back(request.method + " " + request.path);
  EXPECT_THAT(asked, ElementsAre("PUT /latest/api/token", "GET /latest/meta-data/iam/security-credentials/",
                                 "GET /latest/meta-data/iam/security-credentials/shard-reader"));
  EXPECT_EQ(server().requests().at(0).headers.at("x-aws-ec2-metadata-token-ttl-seconds"), "21600");
  EXPECT_EQ(server().requests().at(0).headers.at("content-length"), "0");
}

TEST_F(AwsCredentialsTest, OfAnInstanceThatHasNoneAreAnonymous) {
  set_instance();
  server().set({.role = ""});
  Fetched fetched = get();
  ASSERT_NE(fetched.value, nullptr) << fetched.error;
  EXPECT_TRUE(fetched.value->is_anonymous());
  EXPECT_EQ(fetched.value->looked_at.back(), "instance metadata: http://127.0.0.1: the instance has no role");

  credentials_ = nullptr;
  options_.ask_instance = false;
  const size_t before = server().requests().size();
  fetched = get();
  EXPECT_EQ(fetched.value->looked_at.back(), "instance metadata: not asked, since the endpoint is not one of AWS");
  EXPECT_EQ(server().requests().size(), before);
}

// While EC2 cannot renew its credentials it gives old ones.
TEST_F(AwsCredentialsTest, OfAnInstanceAreUsedForLongerThanTheySay) {
  set_instance();
  server().set({.expiration = "2026-11-28T11:00:00Z"});
  const Fetched fetched = get();
  ASSERT_NE(fetched.value, nullptr) << fetched.error;
  EXPECT_EQ(fetched.ends, clock_->wall_now() + std::chrono::minutes(10));
}

TEST_F(AwsCredentialsTest, AreRenewedInMidRunBeforeTheyEnd) {
  set_web_identity();
  const Fetched first = get();
  ASSERT_NE(first.value, nullptr) << first.error;
  clock_->turn(std::chrono::minutes(56));
  server().set({.access_key_id = "AKIDSECOND", .expiration = "2026-11-28T14:00:00Z"});
  EXPECT_EQ(get().value, first.value) << "nobody waits";
  while (get().value == first.value) std::this_thread::yield();
  EXPECT_EQ(get().value->access_key_id, "AKIDSECOND");
  EXPECT_EQ(server().requests().size(), 2U);
}

// Others would be of somebody else, and without any a private object would seem to be forbidden.
TEST_F(AwsCredentialsTest, AreRenewedByTheSourceThatGaveThemAlone) {
  std::atomic<bool> is_down = false;
  fault_ = [&](const CredentialRequest&) -> std::optional<CredentialAnswer> {
    if (!is_down) return std::nullopt;
    return CredentialAnswer{.status = 403};
  };
  set_instance();
  const Fetched first = get();
  ASSERT_NE(first.value, nullptr) << first.error;
  is_down = true;
  set_profile();
  clock_->turn(std::chrono::minutes(60));
  EXPECT_EQ(source(),
            "no AWS credentials from instance metadata, role shard-reader: it has none any more (instance "
            "metadata: http://127.0.0.1: status 403)");
  is_down = false;
  server().set({.access_key_id = "AKIDSECOND", .expiration = "2026-11-28T14:00:00Z"});
  EXPECT_EQ(get().value->access_key_id, "AKIDSECOND");
}

// A source that never answers: the chain ends all the same.
TEST_F(AwsCredentialsTest, EndByDeadlineWhereASourceHangs) {
  fault_ = [](const CredentialRequest&) { return CredentialAnswer{.hangs = true}; };
  set_web_identity();
  auto [fetched, took] = get_by_deadline();
  EXPECT_EQ(fetched.error,
            "no AWS credentials from web identity (AWS_WEB_IDENTITY_TOKEN_FILE): STS at "
            "http://127.0.0.1: no answer came in time");
  EXPECT_LE(took, std::chrono::seconds(45));
  EXPECT_GE(took, std::chrono::seconds(12));
  values_.erase("AWS_WEB_IDENTITY_TOKEN_FILE");
  set_container();
  std::tie(fetched, took) = get_by_deadline();
  EXPECT_EQ(fetched.error,
            "no AWS credentials from the container (AWS_CONTAINER_CREDENTIALS_FULL_URI): "
            "http://127.0.0.1: no answer came in time");
  EXPECT_LE(took, std::chrono::seconds(25));
  values_.erase("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  set_instance();
  const size_t before = server().requests().size();
  std::tie(fetched, took) = get_by_deadline();
  ASSERT_NE(fetched.value, nullptr) << fetched.error;
  EXPECT_TRUE(fetched.value->is_anonymous());
  EXPECT_EQ(fetched.value->looked_at.back(), "instance metadata: http://127.0.0.1: no answer came in time");
  EXPECT_LE(took, std::chrono::seconds(5));
  EXPECT_LE(server().requests().size() - before, 2U);
}

TEST_F(AwsCredentialsTest, OfAnInstanceThatHangsLaterAreAnError) {
  fault_ = [](const CredentialRequest& request) -> std::optional<CredentialAnswer> {
    if (request.method == "PUT") return std::nullopt;
    return CredentialAnswer{.hangs = true};
  };
  set_instance();
  std::future<Fetched> future = start();
  while (server().requests().size() < 2) std::this_thread::yield();
  EXPECT_EQ(finish(std::move(future), true).error,
            "no AWS credentials from instance metadata: http://127.0.0.1: its role: no answer came in time");
}

// One answer of each source that is wrong in each way: an error that names the source, and no secret that the answer or
// the request has.
TEST_F(AwsCredentialsTest, OfASourceThatAnswersOtherwiseAreAnError) {
  std::string wrong_path;
  CredentialAnswer wrong;
  fault_ = [&](const CredentialRequest& request) -> std::optional<CredentialAnswer> {
    if (request.path != wrong_path) return std::nullopt;
    return wrong;
  };
  const std::string echoed =
      "marked-web-identity-token marked-container-token marked-instance-token marked-secret-access-key";
  const std::vector<CredentialAnswer> answers = {
      {.status = 200, .body = "<html><body>" + echoed + "</body></html>"},
      {.status = 200, .body = "<html><body>" + echoed},
      {.status = 200, .body = ""},
      {.status = 200, .body = R"({"AccessKeyId": "marked-key", "SecretAccessKey": "marked-)"},
      {.status = 200, .body = R"({"AccessKeyId": "marked-key", "Token": "marked-token"})"},
      {.status = 200,
       .body = "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>marked"},
      {.status = 200,
       .body = "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
               "<AccessKeyId>marked</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult>"
               "</AssumeRoleWithWebIdentityResponse>"},
      {.status = 403,
       .body =
           "<ErrorResponse><Error><Code>AccessDenied</Code><Message>" + echoed + "</Message></Error></ErrorResponse>"},
      {.status = 403, .body = R"({"code": "AccessDenied", "message": ")" + echoed + "\"}"},
      {.status = 302, .body = echoed},
      {.status = 500, .body = echoed}};
  const std::string instance_path = "/latest/meta-data/iam/security-credentials/";
  struct Source {
    void (AwsCredentialsTest::*set)();
    std::string path;
    std::string name;
  };
  for (const Source& source :
       {Source{&AwsCredentialsTest::set_web_identity, "/", "web identity (AWS_WEB_IDENTITY_TOKEN_FILE)"},
        Source{&AwsCredentialsTest::set_container, "/container", "the container (AWS_CONTAINER_CREDENTIALS_FULL_URI)"},
        Source{&AwsCredentialsTest::set_instance, instance_path, "instance metadata"},
        Source{&AwsCredentialsTest::set_instance, instance_path + "shard-reader",
               "instance metadata, role shard-reader"}}) {
    const Values before = values_;
    (this->*source.set)();
    wrong_path = source.path;
    for (const CredentialAnswer& answer : answers) {
      wrong = answer;
      const Fetched fetched = get_by_real_clock();
      EXPECT_THAT(fetched.error, StartsWith("no AWS credentials from " + source.name + ": ")) << answer.body;
      const std::string status = answer.status == 200 ? "" : "status " + std::to_string(answer.status);
      EXPECT_THAT(fetched.error, HasSubstr(status));
    }
    values_ = before;
  }
}

TEST_F(AwsCredentialsTest, AreAskedForAgainWhereASourceIsBusy) {
  fault_ = [](const CredentialRequest& request) -> std::optional<CredentialAnswer> {
    if (request.number == 0) return CredentialAnswer{.status = 503};
    if (request.number == 1) {
      return CredentialAnswer{
          .status = 400, .body = "<ErrorResponse><Error><Code>IDPCommunicationError</Code></Error></ErrorResponse>"};
    }
    return std::nullopt;
  };
  set_web_identity();
  server().set({.expiration = "2200-01-01T00:00:00Z"});
  const Fetched fetched = get_by_real_clock();
  EXPECT_NE(fetched.value, nullptr) << fetched.error;
  EXPECT_EQ(server().requests().size(), 3U);
}

}  // namespace
}  // namespace millrace::aws_credentials_test
