#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "millrace/formats/storage/remote/google_credentials_file.h"

namespace millrace {

/// What is posted to `token_uri` for an access token, as `application/x-www-form-urlencoded`: the signed claims of a
/// service account (https://developers.google.com/identity/protocols/oauth2/service-account), valid for an hour from
/// `now`, a refresh token (RFC 6749, 6), or a subject token (RFC 8693, 2.1). `scope`: not of users; what they may do
/// was settled when they logged in. Throws `kInvalidArgument` for a key that cannot sign.
[[nodiscard]] std::string google_token_form(const GoogleCredentialsFile& file, const std::string& scope,
                                            std::chrono::system_clock::time_point now,
                                            const std::string& subject_token = "");

/// What is posted for an access token of an impersonated account, JSON
/// (https://cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/generateAccessToken).
[[nodiscard]] std::string impersonation_body(const GoogleImpersonation& impersonation, const std::string& scope);

struct GoogleTokenAnswer {
  std::string access_token = {};  ///< printable ASCII without spaces, not empty
  std::chrono::seconds expires_in{0};
};

/// The answer of a token endpoint (RFC 6749, 5.1; RFC 8693, 2.2.1) or of a metadata server. Throws `kParse`, and
/// repeats nothing of it. A life longer than a day is taken for a day.
[[nodiscard]] GoogleTokenAnswer parse_google_token(std::string_view body);
/// The same, of `generateAccessToken` at `now`.
[[nodiscard]] GoogleTokenAnswer parse_impersonated_token(std::string_view body,
                                                         std::chrono::system_clock::time_point now);

/// The subject token in what its source holds: not empty, without blanks around it. Throws `kParse`, and repeats
/// nothing of it.
[[nodiscard]] std::string parse_subject_token(std::string_view text, const SubjectTokenSource& source);

}  // namespace millrace
