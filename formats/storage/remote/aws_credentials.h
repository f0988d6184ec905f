#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "millrace/formats/storage/remote/aws_config.h"
#include "millrace/formats/storage/remote/aws_credential_answer.h"
#include "millrace/formats/storage/remote/refreshed.h"

namespace millrace {

struct AwsCredentialOptions {
  /// Default: none, they are looked for
  std::optional<AwsCredentials> given = {};
  /// One that is named here comes before the environment. Default: empty, AWS_PROFILE, AWS_DEFAULT_PROFILE, `default`
  std::string profile = {};
  /// Whose STS is asked. Default: empty, AWS_REGION, AWS_DEFAULT_REGION, that of the profile; none: STS has one for all
  std::string region = {};
  /// Whether the metadata of an instance of EC2 are asked. Stores with an endpoint of their own mostly run elsewhere,
  /// where that takes 2 s. Default: true
  bool ask_instance = true;
  /// Of a `credential_process`. Default: 60 s
  std::chrono::milliseconds process_deadline{60'000};
  /// Before AWS_CONTAINER_CREDENTIALS_RELATIVE_URI. Default: that of ECS
  std::string container_endpoint = "http://169.254.170.2";
  /// Is asked on other threads too. Default: that of the process
  Environment environment = process_environment;
};

/// Credentials of AWS, from the first of these that has any:
///
/// 1. `AwsCredentialOptions::given`;
/// 2. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN;
/// 3. AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN, AWS_ROLE_SESSION_NAME: STS at AWS_ENDPOINT_URL_STS, AWS_ENDPOINT_URL,
///    endpoints of the profile, else of the region;
/// 4. a profile (`load_aws_profile`): its keys, its web identity, its `credential_process`;
/// 5. a container: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE or
///    AWS_CONTAINER_AUTHORIZATION_TOKEN;
/// 6. an instance of EC2, version 2 of its metadata service (AWS_EC2_METADATA_SERVICE_ENDPOINT, _ENDPOINT_MODE), unless
///    AWS_EC2_METADATA_DISABLED=true.
///
/// Where nobody has any the value is anonymous, and says where was looked; it stays so until it is discarded. A source
/// that is set up and fails is an error, which names it: others would be of somebody else. So is one that has given
/// some before and has none later; only it is asked again. Files are read anew each time. Nothing is asked before the
/// first `get`, which does not wait for files or processes either: they have a thread of their own meanwhile. An error
/// comes after 45 s at the latest, of a process after its deadline. Errors name no key, token, command or answer.
///
/// Sources: https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html and what it links to.
[[nodiscard]] std::shared_ptr<Refreshed<AwsCredentials>> aws_credentials(std::shared_ptr<HttpEngine> engine,
                                                                         AwsCredentialOptions options = {});

}  // namespace millrace
