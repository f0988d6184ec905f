#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace millrace::test {

/// A request as the server read it.
struct CredentialRequest {
  std::string method;
  std::string path;                            ///< as it was sent
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::map<std::string, std::string> form;     ///< of a body of a form, decoded
  std::string body;
  uint64_t number = 0;  ///< of all requests, from 0
};

struct CredentialAnswer {
  int status = 200;
  std::string body = {};
  bool hangs = false;  ///< nothing comes, for ever
};

/// What the server gives, and wants for it.
struct ServedCredentials {
  std::string access_key_id = "AKIDEXAMPLE";
  std::string secret_access_key = "marked-secret-access-key";
  std::string session_token = "marked-session-token";
  std::string expiration = "2026-11-28T13:00:00Z";
  std::string web_identity_token = "marked-web-identity-token";
  std::string container_authorization = "marked-container-token";  ///< empty: none
  std::string instance_token = "marked-instance-token";
  std::string role = "shard-reader";  ///< empty: the instance has none
};

/// Plays STS (`POST /`), the endpoint of a container (`GET /container`) and the metadata service of an instance of EC2
/// in version 2, on a port of 127.0.0.1 and one thread. Requests that the real ones refuse are refused.
class CredentialServer {
 public:
  /// `fault`: is asked first, on the server's thread; what it gives is the answer. Null: nothing goes wrong
  explicit CredentialServer(std::function<std::optional<CredentialAnswer>(const CredentialRequest&)> fault = nullptr);
  ~CredentialServer();
  CredentialServer(const CredentialServer&) = delete;
  CredentialServer& operator=(const CredentialServer&) = delete;

  void set(ServedCredentials credentials);
  [[nodiscard]] std::string endpoint() const;  ///< `http://127.0.0.1:PORT`
  /// All so far, in their order.
  [[nodiscard]] std::vector<CredentialRequest> requests() const;

 private:
  class Server;
  const std::unique_ptr<Server> server_;
};

}  // namespace millrace::test
