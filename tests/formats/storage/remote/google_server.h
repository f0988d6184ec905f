#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace millrace::test {

/// An RSA key made for the test, in PEM.
struct RsaKey {
  std::string private_key;
  std::string public_key;
};
[[nodiscard]] RsaKey make_rsa_key(unsigned bits = 2048);

/// A request as the server read it.
struct GoogleRequest {
  std::string method;
  std::string target;                          ///< path and query as they were sent
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
  uint64_t number = 0;  ///< of all requests, from 0
};

/// What goes wrong with one answer.
struct GoogleFault {
  enum class Kind {
    kNone,
    kAnswer,       ///< `status`, with `headers` and `body`
    kHang,         ///< no answer, forever
    kReset,        ///< the connection breaks off before an answer, and nothing is done
    kLoseAnswer,   ///< the same, when it is done
    kResetInBody,  ///< after half of it
    kCloseInBody,  ///< the same, in order
    kHangInBody,
    kSilentClose,  ///< nothing but that the connection ends with it
    kChunked,      ///< without a Content-Length
    kPartAsWhole,  ///< 206 in all but its status, 200
    kKeepLess,     ///< of a chunk, `kept` bytes
    kSpoil,        ///< of an object that is written, a byte, and nobody sees it
    kSpoilOnWay,   ///< the same, before its CRC is compared
    kEndEarly,     ///< of a chunk: what came until then becomes the object
  };
  Kind kind = Kind::kNone;
  int status = 200;
  std::map<std::string, std::string> headers = {};
  std::string body = {};
  size_t kept = 0;
};

/// What goes wrong with a request before its body is read.
enum class GoogleUploadFault {
  kNone,
  kReset,  ///< after a part of the body
  kStall,  ///< it is never read
};

struct GoogleServerOptions {
  /// The account that may be impersonated.
  static constexpr const char* kImpersonated = "trainer@project.iam.gserviceaccount.com";

  /// Of each request; called on the server's thread. Null: nothing goes wrong
  std::function<GoogleFault(const GoogleRequest&)> fault = nullptr;
  /// Of each request, whose body is not there yet, nor its number. Null: nothing goes wrong
  std::function<GoogleUploadFault(const GoogleRequest&)> upload_fault = nullptr;
  /// The time of day, by which claims are valid and tokens end. Null: the system's
  std::function<std::chrono::system_clock::time_point()> now = nullptr;
  std::string account = {};                ///< that claims must be of
  std::string public_key = {};             ///< that verifies them, in PEM
  std::string client_id = {};              ///< of the user
  std::string client_secret = {};          ///< the same
  std::string refresh_token = {};          ///< the same
  std::string audience = {};               ///< of a pool of external accounts
  std::string subject_token = {};          ///< that is exchanged there, and given by its provider
  bool has_account = true;                 ///< of the metadata server
  std::chrono::seconds token_life{3600};   ///< of access tokens
  std::string token_mark = "ya29.secret";  ///< how access tokens begin
  bool is_public = false;                  ///< whether objects are given without a token
};

/// Google's token endpoint, its exchange of subject tokens, the provider of these, IAM's `generateAccessToken`, the
/// metadata server of a virtual machine and the JSON API of Cloud Storage, on one port of 127.0.0.1. Claims are
/// verified: signature, audience, scope, times; objects have generations, ranges, listings by pages; they are written
/// by uploads in one request and by resumable ones.
class GoogleServer {
 public:
  explicit GoogleServer(GoogleServerOptions options = {});
  ~GoogleServer();
  GoogleServer(const GoogleServer&) = delete;
  GoogleServer& operator=(const GoogleServer&) = delete;

  /// Puts an object into a bucket, which then is there, and gives its generation.
  std::string put(const std::string& bucket, const std::string& key, std::string content);
  void remove(const std::string& bucket, const std::string& key);
  /// The content of an object, or nothing.
  [[nodiscard]] std::optional<std::string> content(const std::string& bucket, const std::string& key) const;
  [[nodiscard]] std::vector<std::string> keys(const std::string& bucket) const;  ///< of its objects, in order
  [[nodiscard]] size_t num_sessions() const;                                     ///< of uploads that have not ended
  [[nodiscard]] std::string host() const;                                        ///< `127.0.0.1:PORT`
  [[nodiscard]] std::string endpoint() const;                                    ///< `http://127.0.0.1:PORT`
  [[nodiscard]] std::string token_uri() const;  ///< of the endpoint and of the exchange
  [[nodiscard]] std::string impersonation_url() const;
  [[nodiscard]] std::vector<GoogleRequest> requests() const;  ///< all so far, in their order

 private:
  class Server;
  const std::unique_ptr<Server> server_;
};

}  // namespace millrace::test
