#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/formats/storage/remote/google_server.h"

namespace millrace::test {

/// An object as Google's store keeps it.
struct GoogleObject {
  std::string content;
  std::string generation;
  std::string metadata;  ///< JSON; empty: none
};

/// An answer of the JSON API.
struct GoogleAnswer {
  int status = 200;
  std::map<std::string, std::string> headers = {};
  std::string body = {};
};

[[nodiscard]] GoogleAnswer google_api_error(int status, const std::string& reason, const std::string& message);

/// The description of an object.
[[nodiscard]] std::string google_resource(const std::string& key, const GoogleObject& object);

/// CRC-32C as descriptions have it, computed bit by bit.
[[nodiscard]] std::string google_crc32c(const std::string& bytes);

/// What writes objects of one bucket: uploads in one request, and resumable sessions. One thread at a time.
class GoogleUploads {
 public:
  using Query = std::map<std::string, std::string>;
  using Objects = std::map<std::string, GoogleObject>;

  /// A request to `/upload/storage/v1/b/BUCKET/o`. `endpoint`: of the server. `generation`: of an object that it makes.
  [[nodiscard]] GoogleAnswer answer(const GoogleRequest& request, Query query, Objects& objects,
                                    const GoogleFault& fault, const std::string& endpoint,
                                    const std::string& generation);
  [[nodiscard]] size_t num_sessions() const { return sessions_.size(); }

 private:
  struct Session {
    std::string key;
    std::string metadata;
    std::string content;
    std::string replaced;  // the generation, 0: none; empty: whatever there is
  };

  GoogleAnswer session(const GoogleRequest& request, const std::string& id, Objects& objects, const GoogleFault& fault,
                       const std::string& generation);

  std::map<std::string, Session> sessions_;   // by their numbers
  std::map<std::string, std::string> ended_;  // what they became
  int num_sessions_ = 0;
};

}  // namespace millrace::test
