#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace millrace {

/// What a file of credentials of Google's holds (https://google.aip.dev/auth/4112, https://google.aip.dev/auth/4113).
struct GoogleCredentialsFile {
  enum class Type {
    kServiceAccount,  ///< a key signs what an access token is given for
    kAuthorizedUser,  ///< a refresh token, as `gcloud auth application-default login` leaves it
  };
  Type type = Type::kServiceAccount;
  std::string token_uri = {};  ///< `https`, or of this computer
  std::string quota_project = {};
  std::string client_email = {};    ///< of a service account
  std::string private_key = {};     ///< the same, in PEM
  std::string private_key_id = {};  ///< the same; may be empty
  std::string client_id = {};       ///< of a user
  std::string client_secret = {};   ///< the same
  std::string refresh_token = {};   ///< the same
};

/// Throws `kParse` naming `path`: for what is no such document, lacks a field, or is of another type, which is named.
/// No message repeats any other value.
[[nodiscard]] GoogleCredentialsFile parse_google_credentials(std::string_view text, const std::string& path);

/// What is posted to `token_uri` for an access token, as `application/x-www-form-urlencoded`: the signed claims of a
/// service account (https://developers.google.com/identity/protocols/oauth2/service-account), valid for an hour from
/// `now`, or a refresh token (RFC 6749, 6). `scope`: of service accounts; what users may do was settled when they
/// logged in. Throws `kInvalidArgument` for a key that cannot sign.
[[nodiscard]] std::string google_token_form(const GoogleCredentialsFile& file, const std::string& scope,
                                            std::chrono::system_clock::time_point now);

struct GoogleTokenAnswer {
  std::string access_token = {};  ///< printable ASCII without spaces, not empty
  std::chrono::seconds expires_in{0};
};

/// The answer of a token endpoint (RFC 6749, 5.1) or of a metadata server. Throws `kParse`, and repeats nothing of it.
/// A life longer than a day is taken for a day.
[[nodiscard]] GoogleTokenAnswer parse_google_token(std::string_view body);

}  // namespace millrace
