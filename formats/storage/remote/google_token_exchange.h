#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "millrace/formats/storage/remote/google_credentials_file.h"
#include "millrace/formats/storage/remote/google_token.h"
#include "millrace/formats/storage/remote/retry.h"

namespace millrace {

/// What asking for an access token came to.
struct GoogleTokenResult {
  std::optional<GoogleTokenAnswer> token = {};          ///< nothing: see `error`
  std::chrono::system_clock::time_point asked_at = {};  ///< from when on it lives
  std::string error = {};                               ///< one line with the URL that was asked; never a secret
};

/// Asks for the access token that a file of credentials is good for, with retries: for a subject token, where it is at
/// a URL; at the token endpoint; and for the token of the account that is impersonated. `scope`: of the token. Reads
/// the file of a subject token and signs claims before it returns, so not on the engine's thread. `done` is called
/// once, here or on the engine's thread, and must not throw.
void ask_for_google_token(HttpCalls calls, GoogleCredentialsFile file, std::string scope,
                          std::function<void(GoogleTokenResult)> done);

/// How all are asked that give tokens.
inline constexpr HttpDeadlines kGoogleTokenDeadlines{.first_byte = std::chrono::milliseconds(10'000)};
[[nodiscard]] AttemptOutcome google_token_outcome(const HttpResponse& response);
/// Why an answer brings none: `status 400 (invalid_grant): Token has been expired or revoked.`, without these secrets.
[[nodiscard]] std::string google_token_refusal(const HttpResponse& response,
                                               const std::vector<std::string>& secrets = {});
/// ` (after 3 attempts)`; empty after one.
[[nodiscard]] std::string attempts_text(int attempts);
/// The message of the exception that is being handled, with the file that it names.
[[nodiscard]] std::string current_reason();

}  // namespace millrace
