#pragma once

#include <string>
#include <string_view>

#include "millrace/formats/storage/remote/http_message.h"

namespace millrace {

/// What an answer of S3 says is wrong (https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html). What it
/// does not say is empty.
struct S3Error {
  std::string code = {};  ///< `NoSuchKey`; for a body that is no error of S3 empty
  std::string message = {};
  std::string request_id = {};
  std::string region = {};  ///< the one of the bucket
};

[[nodiscard]] S3Error parse_s3_error(const HttpResponse& response);
/// Whether the beginning of a body is that of an error: S3 also sends them with status 200.
[[nodiscard]] bool has_s3_error(std::string_view body);

}  // namespace millrace
