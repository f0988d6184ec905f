#pragma once

#include <map>
#include <string>

#include "millrace/formats/storage/remote/remote_storage.h"
#include "tests/formats/storage/remote/fetch.h"
#include "tests/formats/storage/remote/object_server.h"

namespace millrace::test {

/// Credentials that must appear in no error.
[[nodiscard]] const AwsCredentials& marked_credentials();

/// S3 that takes these alone.
[[nodiscard]] S3ServiceOptions marked_service();

/// Options of a storage that reads from it, of a process whose environment is empty.
[[nodiscard]] RemoteOptions s3_options(const ObjectServer& server);

/// What leads a process whose environment has these to it.
[[nodiscard]] std::map<std::string, std::string> aws_variables(const ObjectServer& server);

/// What reading an object comes to: an error that names its URL and shows no credentials, or `no error`.
[[nodiscard]] std::string error_of(const RemoteOptions& options, const std::string& url);
/// The same of a listing.
[[nodiscard]] std::string error_of_glob(const RemoteOptions& options, const std::string& pattern);

}  // namespace millrace::test
