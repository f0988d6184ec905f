#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tests/formats/storage/remote/certificate.h"
#include "tests/formats/storage/remote/object_server.h"

namespace millrace::test {

struct HttpsServerOptions {
  Certificate certificate = {};  ///< that it shows
  std::string content = {};      ///< of whatever is asked for; ranges of it are given
  /// An answer in place of the content; called on the server's thread. Null: none
  std::function<ServedFault(const ServedRequest&)> fault = nullptr;
};

/// A server of one object by HTTPS, on a port of 127.0.0.1 of its own and one thread.
class HttpsServer {
 public:
  explicit HttpsServer(HttpsServerOptions options);
  ~HttpsServer();
  HttpsServer(const HttpsServer&) = delete;
  HttpsServer& operator=(const HttpsServer&) = delete;

  [[nodiscard]] std::string url(const std::string& name) const;  ///< `https://127.0.0.1:PORT/NAME`
  [[nodiscard]] uint64_t connections() const;                    ///< so far, those too that came to nothing
  [[nodiscard]] uint64_t requests() const;                       ///< so far

 private:
  class Server;
  const std::unique_ptr<Server> server_;
};

}  // namespace millrace::test
