#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "millrace/formats/storage/remote/aws_config.h"
#include "millrace/formats/storage/remote/aws_credential_answer.h"
#include "millrace/formats/storage/remote/retry.h"

namespace millrace {

/// What a source of credentials that is asked over HTTP came to: an answer, or why there is none.
struct AwsSourceResult {
  std::optional<AwsCredentialAnswer> answer = {};
  std::string reason = {};  ///< one line without secrets
  bool is_absent = false;   ///< there is no such source here
  std::string detail = {};  ///< of the source, for messages: the role of an instance
};

/// The sources of credentials that are asked over HTTP. Nothing waits: `done` is called once, on the engine's thread,
/// and must not throw. A request that cannot be asked is thrown as `kIo`, in one line without secrets; then `done` is
/// not called. Any thread.
struct AwsSources {
  using Done = std::function<void(AwsSourceResult)>;

  std::shared_ptr<HttpEngine> engine;
  std::shared_ptr<RetryBudget> budget = std::make_shared<RetryBudget>();

  /// STS's AssumeRoleWithWebIdentity, unsigned. Three attempts of 12 s, the last within 30 s.
  void ask_sts(const std::string& endpoint, const std::string& role_arn, const std::string& session_name,
               const std::string& token, Done done) const;
  /// The URL that a container is told of; its `Authorization`, or empty. Without TLS only an address of the machine
  /// itself is asked, and without a proxy. Three attempts of 5 s, the last within 15 s.
  void ask_container(const std::string& url, const std::string& authorization, Done done) const;
  /// The metadata of an instance of EC2, in version 2: a token, the role, its credentials. Two attempts of 1 s each.
  void ask_instance(const std::string& endpoint, Done done) const;
};

/// Where STS is: AWS_ENDPOINT_URL_STS, AWS_ENDPOINT_URL, the endpoints of the profile, else that of AWS in the region:
/// `region`, AWS_REGION, AWS_DEFAULT_REGION, that of the profile; without any the one for all. Throws for a region that
/// is no name.
[[nodiscard]] std::string sts_endpoint(const Environment& environment, const AwsProfile& profile, std::string region);

}  // namespace millrace
