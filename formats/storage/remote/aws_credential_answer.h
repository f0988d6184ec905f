#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// Keys to sign requests with; without any, requests go unsigned.
struct AwsCredentials {
  std::string access_key_id = {};
  std::string secret_access_key = {};
  std::string session_token = {};  ///< empty: they are of no session
  /// Who gave them, for messages: `environment`, `profile dev in ~/.aws/credentials`; `anonymous`: nobody has any
  std::string source = {};
  /// Where there are none: each source that was looked at, and why it has none.
  std::vector<std::string> looked_at = {};

  [[nodiscard]] bool is_anonymous() const { return access_key_id.empty(); }
};

/// What a source of credentials answers with.
struct AwsCredentialAnswer {
  AwsCredentials credentials = {};                                 ///< without a source
  std::optional<std::chrono::system_clock::time_point> ends = {};  ///< none: never
};

/// The longest answer of a source that is read.
constexpr size_t kMostAwsCredentialAnswer = 64 << 10;

// All of these throw `kParse`, in one line with nothing of the answer, where it is longer, of another form, or has no
// keys that can be sent.

/// Of the action AssumeRoleWithWebIdentity of STS
/// (https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html), XML.
[[nodiscard]] AwsCredentialAnswer credentials_of_sts(std::string_view xml);
/// Of the metadata of a container or an instance, JSON
/// (https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html).
[[nodiscard]] AwsCredentialAnswer credentials_of_metadata(std::string_view json);
/// Of a `credential_process`, JSON
/// (https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html).
[[nodiscard]] AwsCredentialAnswer credentials_of_process(std::string_view json);

/// Why a source gives none, by its answer: `ExpiredTokenException: Token expired`. The text is left out where it has 12
/// characters in a row of the secret. Empty: the answer, XML or JSON, does not say.
[[nodiscard]] std::string refusal_of(std::string_view answer, std::string_view secret);

/// Throws `kParse` where a key, named `what`, is empty or has characters that no key has: it goes into fields of HTTP.
void check_aws_key(std::string_view what, std::string_view key);

}  // namespace millrace
