#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "millrace/formats/storage/remote/aws_credentials.h"
#include "millrace/formats/storage/remote/http_message.h"

namespace millrace {

/// SHA-256 of nothing, in hexadecimal digits: the content of a request without a body.
constexpr std::string_view kSha256OfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// SHA-256 in hexadecimal digits.
[[nodiscard]] std::string sha256_hex(std::string_view text);

struct AwsSigning {
  std::string region = {};
  std::string service = "s3";
  std::chrono::system_clock::time_point time = {};
};

/// Signs a request: adds `x-amz-date`, `x-amz-security-token` where the credentials have one, and `Authorization`, by
/// AWS Signature Version 4 (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html). What is
/// signed is the URL, the host and all fields `x-amz-…`; proxies may change others, and stores that speak S3's language
/// do. The content is what `x-amz-content-sha256` says, else that of the body.
void sign_aws(HttpRequest& request, const AwsCredentials& credentials, const AwsSigning& signing);

}  // namespace millrace
