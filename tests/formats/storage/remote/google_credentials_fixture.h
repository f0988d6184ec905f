#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/storage/remote/google_credentials.h"
#include "tests/formats/storage/remote/google_server.h"
#include "tests/formats/storage/remote/manual_http_clock.h"
#include "tests/support/temporary_folder.h"

namespace millrace::test {

/// In every secret, so that one search finds each.
inline constexpr const char* kMark = "SeCrEt";

/// Of the service account.
inline const RsaKey& account_key() {
  static const RsaKey made = make_rsa_key();
  return made;
}

/// Credentials of a test: files, variables, a server, a clock. Whatever comes of them is searched for secrets.
class GoogleCredentialsTest : public testing::Test {
 protected:
  using Fetched = Refreshed<GoogleToken>::Fetched;

  GoogleCredentialsTest() { variables_["HOME"] = folder_.path(); }

  GoogleServer& serve(GoogleServerOptions options = {}) {
    options.now = [clock = clock_] { return clock->wall_now(); };
    options.account = "reader@project.iam.gserviceaccount.com";
    options.public_key = account_key().public_key;
    options.client_id = "id.apps.googleusercontent.com";
    options.client_secret = fmt::format("GOCSPX/{}+client", kMark);
    options.refresh_token = fmt::format("1//{}refresh", kMark);
    options.token_mark = fmt::format("ya29.{}token", kMark);
    server_ = std::make_unique<GoogleServer>(std::move(options));
    variables_["GCE_METADATA_HOST"] = server_->host();
    return *server_;
  }

  nlohmann::json account() const {
    return {{"type", "service_account"},
            {"client_email", "reader@project.iam.gserviceaccount.com"},
            {"private_key", account_key().private_key},
            {"private_key_id", "1f2e3d"},
            {"token_uri", server_->token_uri()}};
  }
  nlohmann::json user() const {
    return {{"type", "authorized_user"},
            {"client_id", "id.apps.googleusercontent.com"},
            {"client_secret", fmt::format("GOCSPX/{}+client", kMark)},
            {"refresh_token", fmt::format("1//{}refresh", kMark)},
            {"quota_project_id", "project-1"},
            {"token_uri", server_->token_uri()}};
  }
  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_.path(name);
    std::filesystem::create_directories(path.parent_path());
    write_file(path, text);
    return path;
  }
  std::string write(const std::string& name, const nlohmann::json& document) const {
    return write(name, document.dump());
  }

  std::shared_ptr<Refreshed<GoogleToken>> make(GoogleCredentialOptions options = {}) {
    options.environment = [variables = variables_](std::string_view name) {
      const auto found = variables.find(std::string(name));
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    return google_credentials(engine_, std::move(options));
  }

  // Waits while the clock runs, in steps of `step`.
  Fetched get(Refreshed<GoogleToken>& tokens, std::chrono::milliseconds step = std::chrono::milliseconds(0)) {
    auto promise = std::make_shared<std::promise<Fetched>>();
    auto future = promise->get_future();
    tokens.get([promise](const Fetched& fetched) { promise->set_value(fetched); });
    while (future.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      clock_->turn(step);
      engine_->look_at_clock();
    }
    Fetched fetched = future.get();
    EXPECT_THAT(fetched.error, testing::Not(testing::HasSubstr(kMark)));
    EXPECT_THAT(fetched.error, testing::Not(testing::HasSubstr("PRIVATE KEY")));
    EXPECT_EQ(fetched.error.find('\n'), std::string::npos);
    EXPECT_EQ(fetched.value == nullptr, !fetched.error.empty());
    EXPECT_THAT(fetched.value == nullptr ? "" : fetched.value->source, testing::Not(testing::HasSubstr(kMark)));
    return fetched;
  }
  Fetched get_once(GoogleCredentialOptions options = {}) {
    options.retries = {.first_wait = std::chrono::milliseconds(1), .longest_wait = std::chrono::milliseconds(4)};
    const auto tokens = make(std::move(options));
    return get(*tokens, std::chrono::milliseconds(2));
  }

  // Requests until now, to one path.
  std::vector<GoogleRequest> asked(const std::string& path) const {
    std::vector<GoogleRequest> found;
    for (GoogleRequest& request : server_->requests()) {
      if (request.target == path) found.push_back(std::move(request));
    }
    return found;
  }

  const TemporaryFolder folder_;
  std::map<std::string, std::string> variables_;
  std::shared_ptr<ManualHttpClock> clock_ = std::make_shared<ManualHttpClock>();
  std::shared_ptr<HttpEngine> engine_ = std::make_shared<HttpEngine>(HttpEngineOptions{.clock = clock_});
  std::unique_ptr<GoogleServer> server_;
};

}  // namespace millrace::test
