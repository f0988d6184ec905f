#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "tests/formats/storage/remote/object_server.h"

namespace millrace::test {

/// An object as listings name it.
struct ListedEntry {
  std::string key;
  std::string tag;
  size_t size = 0;
};

/// The first object of a bucket whose key is not before `from`; none: there is no such.
using NextEntry = std::function<std::optional<ListedEntry>(const std::string& bucket, const std::string& from)>;

/// What S3 says to a request in place of an object: that it is refused, or a listing. Nothing: the object at its path,
/// or what writes there.
/// Signatures are verified by code that shares nothing with the one that makes them.
[[nodiscard]] std::optional<ServedFault> answer_s3(const ServedRequest& request, const S3ServiceOptions& options,
                                                   const NextEntry& next);

/// `/BUCKET/KEY`, decoded, of a request; the bucket may also be named by the host.
[[nodiscard]] std::string s3_path(const ServedRequest& request);

/// What is behind the `?` of a request, decoded.
[[nodiscard]] std::map<std::string, std::string> s3_query(const ServedRequest& request);

/// A key as listings have it that encode their keys.
[[nodiscard]] std::string s3_encoded(const std::string& key);

/// An error in XML.
[[nodiscard]] ServedFault s3_fault(int status, const std::string& code, const std::string& more = "");

}  // namespace millrace::test
