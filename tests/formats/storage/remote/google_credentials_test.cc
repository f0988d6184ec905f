#include "millrace/formats/storage/remote/google_credentials.h"

#include <future>
#include <thread>
#include <vector>

#include "tests/formats/storage/remote/google_credentials_fixture.h"

namespace millrace::google_credentials_test {
namespace {

using test::kMark;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kMetadata = "/computeMetadata/v1/instance/service-accounts/default/token";

class GoogleCredentials : public test::GoogleCredentialsTest {};

TEST_F(GoogleCredentials, OfTheOptionsGoBeforeAllOthers) {
  serve();
  variables_["GOOGLE_APPLICATION_CREDENTIALS"] = write("account.json", account());
  variables_["STORAGE_EMULATOR_HOST"] = "localhost:9199";
  const Fetched token = get_once({.access_token = fmt::format("ya29.{}own", kMark)});
  ASSERT_TRUE(token.value);
  EXPECT_EQ(token.value->access_token, fmt::format("ya29.{}own", kMark));
  EXPECT_EQ(token.value->source, "access token of the options");
  EXPECT_FALSE(token.ends);

  const Fetched none = get_once({.anonymous = true});
  ASSERT_TRUE(none.value);
  EXPECT_EQ(none.value->access_token, "");
  EXPECT_EQ(none.value->source, "anonymous: as the options say");
  EXPECT_EQ(server_->requests().size(), 0U);

  const Fetched of_file = get_once({.file = write("user.json", user())});
  ASSERT_TRUE(of_file.value) << of_file.error;
  EXPECT_EQ(of_file.value->source, fmt::format("user of {}/user.json", folder_.path()));
}

TEST_F(GoogleCredentials, OfAServiceAccountSignClaims) {
  serve();
  const std::string path = write("account.json", account());
  variables_["GOOGLE_APPLICATION_CREDENTIALS"] = path;
  for (const bool read_only : {false, true}) {
    const Fetched token = get_once({.read_only = read_only});
    ASSERT_TRUE(token.value) << token.error;
    EXPECT_THAT(token.value->access_token, StartsWith(fmt::format("ya29.{}token-", kMark)));
    EXPECT_EQ(token.value->source, "service account reader@project.iam.gserviceaccount.com of " + path);
    EXPECT_EQ(token.value->quota_project, "");
    EXPECT_LE(*token.ends, clock_->wall_now() + std::chrono::hours(1));
  }
  EXPECT_EQ(asked("/token").size(), 2U);
  EXPECT_EQ(asked(kMetadata).size(), 0U);
}

TEST_F(GoogleCredentials, OfAUserAreFoundInTheFolderOfTheCommandLineTool) {
  serve();
  const std::string path = write(".config/gcloud/application_default_credentials.json", user());
  const Fetched token = get_once();
  ASSERT_TRUE(token.value) << token.error;
  EXPECT_EQ(token.value->source, "user of " + path);
  EXPECT_EQ(token.value->quota_project, "project-1");

  nlohmann::json elsewhere = user();
  elsewhere.erase("quota_project_id");
  const std::string other = write("sdk/application_default_credentials.json", elsewhere);
  variables_["CLOUDSDK_CONFIG"] = folder_.path("sdk");
  const Fetched second = get_once();
  ASSERT_TRUE(second.value) << second.error;
  EXPECT_EQ(second.value->source, "user of " + other);
  EXPECT_EQ(second.value->quota_project, "");

  variables_["GOOGLE_CLOUD_QUOTA_PROJECT"] = "project-2";
  EXPECT_EQ(get_once().value->quota_project, "project-2");
}

TEST_F(GoogleCredentials, ComeFromTheMetadataServerOfAMachine) {
  serve();
  const Fetched token = get_once();
  ASSERT_TRUE(token.value) << token.error;
  EXPECT_EQ(token.value->source, "metadata server " + server_->host());
  EXPECT_THAT(token.value->access_token, HasSubstr(kMark));
  ASSERT_EQ(asked(kMetadata).size(), 1U);
  EXPECT_EQ(asked(kMetadata)[0].headers.at("metadata-flavor"), "Google");
}

TEST_F(GoogleCredentials, AreNoneWhereNoneAreFoundAndItIsSaidWhereTheyWereLookedFor) {
  serve({.has_account = false});
  const std::string looked_at = fmt::format(
      "anonymous: GOOGLE_APPLICATION_CREDENTIALS is not set, there is no {}/.config/gcloud/"
      "application_default_credentials.json, no metadata server at ",
      folder_.path());
  Fetched token = get_once();
  ASSERT_TRUE(token.value) << token.error;
  EXPECT_EQ(token.value->access_token, "");
  EXPECT_EQ(token.value->source, looked_at + server_->host() + " (status 404: Not Found)");

  variables_.erase("HOME");
  variables_["GOOGLE_APPLICATION_CREDENTIALS"] = "";
  variables_["GCE_METADATA_HOST"] = "127.0.0.1:1";
  token = get_once();
  ASSERT_TRUE(token.value) << token.error;
  EXPECT_THAT(token.value->source,
              StartsWith("anonymous: GOOGLE_APPLICATION_CREDENTIALS is not set, HOME is not set, no metadata server at "
                         "127.0.0.1:1 ("));
}

TEST_F(GoogleCredentials, AreNotAskedForWhereTheStoreIsAnEmulator) {
  serve();
  for (const char* name : {"STORAGE_EMULATOR_HOST", "CLOUD_STORAGE_EMULATOR_ENDPOINT"}) {
    variables_[name] = "localhost:9199";
    const Fetched token = get_once();
    ASSERT_TRUE(token.value) << token.error;
    EXPECT_EQ(token.value->source, fmt::format("anonymous: {} is set", name));
    variables_.erase(name);
  }
  EXPECT_EQ(get_once({.is_emulator = true}).value->source, "anonymous: of an emulator");
  EXPECT_EQ(server_->requests().size(), 0U);
}

// The token ends in mid-run: the next one comes before, and nobody waits for it.
TEST_F(GoogleCredentials, AreRenewedFiveMinutesBeforeTheyEnd) {
  for (const bool of_machine : {false, true}) {
    serve();
    const auto tokens = of_machine ? make() : make({.file = write("account.json", account())});
    const Fetched first = get(*tokens);
    ASSERT_TRUE(first.value) << first.error;
    clock_->turn(std::chrono::minutes(54));
    EXPECT_EQ(get(*tokens).value, first.value);
    EXPECT_EQ(server_->requests().size(), 1U);

    clock_->turn(std::chrono::minutes(2));
    EXPECT_EQ(get(*tokens).value, first.value) << "while the next one is asked for";
    Fetched next = get(*tokens);
    while (next.value == first.value) next = get(*tokens);
    EXPECT_NE(next.value->access_token, first.value->access_token);
    EXPECT_EQ(server_->requests().size(), 2U);

    clock_->turn(std::chrono::minutes(90));
    const Fetched late = get(*tokens);
    ASSERT_TRUE(late.value) << late.error;
    EXPECT_NE(late.value->access_token, next.value->access_token);
  }
}

// As metadata servers do, which give the token that they have until it is about to end.
TEST_F(GoogleCredentials, ThatEndSoonAreAskedForTwiceAMinuteAtMost) {
  serve({.token_life = std::chrono::seconds(240)});
  const auto tokens = make();
  ASSERT_TRUE(get(*tokens).value);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(get(*tokens).value);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(server_->requests().size(), 1U);
  clock_->turn(std::chrono::seconds(31));
  const Fetched before = get(*tokens);
  while (get(*tokens).value == before.value) std::this_thread::yield();
  EXPECT_EQ(server_->requests().size(), 2U);
}

TEST_F(GoogleCredentials, AreReadAgainWhereTheirFileHasChanged) {
  serve();
  const std::string path = write("account.json", account());
  const auto tokens = make({.file = path});
  const Fetched first = get(*tokens);
  ASSERT_TRUE(first.value) << first.error;
  write("account.json", user());
  tokens->discard(first.value);
  EXPECT_EQ(get(*tokens).value->source, "user of " + path);
}

TEST_F(GoogleCredentials, AreAskedForOnceByAllWhoWait) {
  serve();
  const auto tokens = make({.file = write("account.json", account())});
  std::vector<std::future<Fetched>> waiting;
  for (int i = 0; i < 20; ++i) {
    auto promise = std::make_shared<std::promise<Fetched>>();
    waiting.push_back(promise->get_future());
    tokens->get([promise](const Fetched& fetched) { promise->set_value(fetched); });
  }
  const Fetched first = waiting[0].get();
  for (size_t i = 1; i < waiting.size(); ++i) EXPECT_EQ(waiting[i].get().value, first.value);
  EXPECT_EQ(asked("/token").size(), 1U);
}

}  // namespace
}  // namespace millrace::google_credentials_test
