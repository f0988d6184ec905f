#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/formats/storage/remote/environment.h"

namespace millrace {

/// Which of the two files that the AWS SDKs share: they name profiles differently.
enum class AwsFile {
  kConfig,       ///< `~/.aws/config`: `[default]`, `[profile NAME]`, `[services NAME]`
  kCredentials,  ///< `~/.aws/credentials`: `[NAME]`
};

/// What is in one of them. Names of properties are in lower case; those that lie in another one, as `endpoint_url`
/// below `s3 =`, are `s3.endpoint_url`.
struct AwsSections {
  using Properties = std::map<std::string, std::string, std::less<>>;
  std::map<std::string, Properties, std::less<>> profiles = {};
  std::map<std::string, Properties, std::less<>> services = {};
};

/// The longest of these files that is read.
constexpr size_t kMostAwsConfig = 1 << 20;

/// Reads the text of such a file (https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html). Lines that are
/// blank or begin with `#` or `;` say nothing, and a value ends before a space with one of these. Lines that begin with
/// a space go on with the value above, or are properties in it where it is empty. The last of two values holds, and
/// `[profile default]` hides `[default]`. Sections and properties of other names than the SDKs take are left out.
/// Throws `kParse` with the number of the line and nothing of its text, which may be a secret.
[[nodiscard]] AwsSections parse_aws_config(std::string_view text, AwsFile which);

/// One profile, from both files; empty is what they do not say.
struct AwsProfile {
  std::string name = {};
  bool is_there = false;     ///< in one of the files
  std::string files = {};    ///< where it was looked for, for messages: `~/.aws/config and ~/.aws/credentials`
  std::string keys_at = {};  ///< the file of the keys
  std::string access_key_id = {};
  std::string secret_access_key = {};
  std::string session_token = {};
  std::string region = {};
  /// For all services; those for one alone come first.
  std::string endpoint_url = {};
  std::string s3_endpoint_url = {};
  std::string sts_endpoint_url = {};
  std::string credential_process = {};
  std::string web_identity_token_file = {};
  std::string role_arn = {};
  std::string role_session_name = {};
  /// Of the properties for other ways to credentials, which are not supported: the first. Empty: none.
  std::string unsupported = {};
};

/// Reads a profile: `name`, else AWS_PROFILE, AWS_DEFAULT_PROFILE, `default`; from AWS_CONFIG_FILE and
/// AWS_SHARED_CREDENTIALS_FILE, else the files in `$HOME/.aws`. Keys of the second file come first. Endpoints are left
/// out with AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true. Throws, in one line without any value of a file, `kIo` where a
/// file cannot be read, `kParse` as `parse_aws_config`, and `kInvalidArgument` for a profile that is named but not
/// there. Waits for the disk.
[[nodiscard]] AwsProfile load_aws_profile(const Environment& environment, std::string name = {});

}  // namespace millrace
