#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

/// Where the subject token of an external account is, which another identity provider has given.
struct SubjectTokenSource {
  std::string file = {};  ///< empty: it is at `url`
  std::string url = {};   ///< `https`, or of this computer, or 169.254.169.254 over http
  std::vector<std::pair<std::string, std::string>> headers = {};  ///< of the request to `url`
  std::string field = {};  ///< of the JSON object that holds it; empty: it is the whole text
};

/// A service account that acts for whoever has the credentials.
struct GoogleImpersonation {
  std::string url = {};                     ///< of `generateAccessToken`: `https`, or of this computer
  std::string account = {};                 ///< that the URL names
  std::vector<std::string> delegates = {};  ///< service accounts in between
  std::chrono::seconds token_lifetime{3600};
};

/// What a file of credentials of Google's holds (https://google.aip.dev/auth/4112, https://google.aip.dev/auth/4113,
/// https://google.aip.dev/auth/4117). One of an impersonated service account is that of its `source_credentials`, with
/// an impersonation.
struct GoogleCredentialsFile {
  enum class Type {
    kServiceAccount,   ///< a key signs what an access token is given for
    kAuthorizedUser,   ///< a refresh token, as `gcloud auth application-default login` leaves it
    kExternalAccount,  ///< a subject token is exchanged for an access token: workload identity federation
  };
  Type type = Type::kServiceAccount;
  std::string token_uri = {};  ///< `https`, or of this computer
  std::string quota_project = {};
  std::string client_email = {};        ///< of a service account
  std::string private_key = {};         ///< the same, in PEM
  std::string private_key_id = {};      ///< the same; may be empty
  std::string client_id = {};           ///< of a user; of an external account it may be empty
  std::string client_secret = {};       ///< the same
  std::string refresh_token = {};       ///< of a user
  std::string audience = {};            ///< of an external account
  std::string subject_token_type = {};  ///< the same
  SubjectTokenSource subject = {};      ///< the same
  std::string user_project = {};        ///< the same, of a pool of a workforce; may be empty
  std::optional<GoogleImpersonation> impersonation = {};
};

/// Throws `kParse` naming `path`: for what is no such document, lacks a field, or is of another type, which is named.
/// No message repeats any other value.
[[nodiscard]] GoogleCredentialsFile parse_google_credentials(std::string_view text, const std::string& path);

}  // namespace millrace
