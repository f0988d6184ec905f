#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "tests/formats/storage/remote/google_server.h"
#include "tests/formats/storage/remote/google_uploads.h"

namespace millrace::test {

[[nodiscard]] std::string percent_decode(std::string_view text, bool plus_is_space = false);
/// Of a form or a query.
[[nodiscard]] std::map<std::string, std::string> parse_form(std::string_view text);

/// Whatever gives tokens: the token endpoint, which exchanges subject tokens as well (`/token`), IAM's
/// `generateAccessToken`, the metadata server of a virtual machine, and the provider of the subject token (`/subject`,
/// with `?json` as JSON), which wants a field `Metadata: true`. One thread at a time.
class GoogleTokens {
 public:
  /// `options` must stay.
  explicit GoogleTokens(const GoogleServerOptions& options) : options_(options) {}

  /// Nothing where it asks for no token. `endpoint`: of the server.
  [[nodiscard]] std::optional<GoogleAnswer> answer(const GoogleRequest& request, const std::string& endpoint);
  /// Whether a field `Authorization` opens the store.
  [[nodiscard]] bool is_valid(const std::string& authorization) const;

 private:
  struct Token {
    std::chrono::system_clock::time_point ends;
    std::string scope;  // empty: any
  };

  const Token* find(const std::string& authorization) const;
  std::string issue(const std::string& scope);
  GoogleAnswer issued(const std::string& scope);
  GoogleAnswer of_endpoint(const GoogleRequest& request, const std::string& endpoint);
  GoogleAnswer of_exchange(std::map<std::string, std::string> form);
  std::string why_refused(const std::string& assertion, const std::string& endpoint, std::string& scope) const;
  GoogleAnswer impersonated(const GoogleRequest& request);
  GoogleAnswer of_metadata(const GoogleRequest& request);
  GoogleAnswer subject(const GoogleRequest& request, bool as_json) const;

  const GoogleServerOptions& options_;
  std::map<std::string, Token> tokens_;
  uint64_t num_tokens_ = 0;
};

}  // namespace millrace::test
