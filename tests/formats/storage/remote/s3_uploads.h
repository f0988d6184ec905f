#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/formats/storage/remote/object_server.h"

namespace millrace::test {

/// An object as S3 keeps it.
struct StoredObject {
  std::shared_ptr<const std::string> content;
  std::string tag;                              ///< without quotes
  std::map<std::string, std::string> metadata;  ///< fields `x-amz-meta-…`
};

/// What S3 does with requests that write: PUT, DELETE, uploads in parts, which nobody sees before they are complete,
/// and conditions. One thread at a time.
class S3Uploads {
 public:
  struct Objects {
    std::function<std::optional<std::string>(const std::string& path)> tag;  // nothing: there is no such object
    std::function<void(const std::string& path, StoredObject object)> store;
    std::function<void(const std::string& path)> remove;
  };

  /// `most_listed`: uploads of a page. `keeps_metadata`: whether objects have what their requests said of them.
  S3Uploads(size_t most_listed, bool keeps_metadata) : most_listed_(most_listed), keeps_metadata_(keeps_metadata) {}

  /// Nothing: the request writes nothing, and asks for no uploads. `path`: `/BUCKET/KEY`, decoded.
  [[nodiscard]] std::optional<ServedFault> answer(const ServedRequest& request, const std::string& path,
                                                  const Objects& objects);
  /// Their paths, in order.
  [[nodiscard]] std::vector<std::string> unfinished() const;

 private:
  struct Part {
    std::string content;
    std::string md5;  // 16 bytes
  };
  struct Upload {
    std::string path;
    std::string begun;
    std::map<std::string, std::string> metadata;
    std::map<int, Part> parts;
  };

  ServedFault begin(const ServedRequest& request, const std::string& path);
  ServedFault complete(const ServedRequest& request, const std::string& id, const Objects& objects);
  ServedFault list(const std::string& bucket, std::map<std::string, std::string> query) const;
  std::map<std::string, std::string> metadata_of(const ServedRequest& request) const;

  const size_t most_listed_;
  const bool keeps_metadata_;
  std::map<std::string, Upload> uploads_;  // by their numbers
  int num_begun_ = 0;
};

}  // namespace millrace::test
