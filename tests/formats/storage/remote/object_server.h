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

/// A request as the server read it.
struct ServedRequest {
  std::string method;
  std::string path;                            ///< as it was sent, percent-encoded, with its query
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;                            ///< in `ObjectServer::requests` of at most 64 KiB, and in faults none
  size_t body_bytes = 0;                       ///< that it says it has
  uint64_t number = 0;                         ///< of all requests, from 0
};

/// What goes wrong with one answer.
struct ServedFault {
  enum class Kind {
    kNone,
    kStatus,  ///< `status`, with `headers` and `text`
    kResetBeforeHead,
    kResetInHead,
    kResetInBody,      ///< after half of it
    kCloseInBody,      ///< the same, in order
    kStallBeforeHead,  ///< forever
    kStallInBody,
    kStallAfterAByte,
    kWrongContentRange,  ///< of other bytes
    kNoContentRange,
    kWholeObject,  ///< 200 in place of 206
    kPartAsWhole,  ///< 206 in all but its status, 200
    kMoreBytes,    ///< than its Content-Length, and than were asked for
    kOtherTag,
    kWeakTag,
    kChunked,          ///< without a Content-Length
    kEncoded,          ///< its bytes are packed, with their Content-Length, and no others than asked for
    kEncodedChunked,   ///< the same without a Content-Length
    kEncodedHalf,      ///< the same, and the connection ends after half of it
    kEncodedCut,       ///< the same, after as many bytes as were asked for: it has more
    kMarkedEncoded,    ///< nothing but that it says so, as of an object that is kept packed
    kMarkedChunked,    ///< the same without a Content-Length
    kConnectionClose,  ///< nothing but that the connection ends with it, as it says
    kSilentClose,      ///< the same, and it does not say so
    kGarbage,          ///< no HTTP
    // Of requests with a body; of the others of this list only those before the head, which come when all is done.
    kStallUpload,          ///< it is never read
    kResetInUpload,        ///< after half of it
    kResetAfterUpload,     ///< after all of it, and nothing is done
    kStatusBeforeUpload,   ///< `status` before it was read, and the connection is closed
    kInterimBeforeUpload,  ///< status 102 before it was read, and nothing else is wrong
  };
  Kind kind = Kind::kNone;
  int status = 0;
  std::map<std::string, std::string> headers = {};
  std::string text = {};
  /// Of an answer that stands still in its body: when this says so, the rest follows; called on the server's thread.
  /// Null: never
  std::function<bool()> goes_on = nullptr;
};

/// What an object server that speaks the language of S3 does: every request is refused that is not signed by these.
struct S3ServiceOptions {
  std::string access_key_id = {};
  std::string secret_access_key = {};
  std::string session_token = {};  ///< empty: any, or none
  std::string region = "us-east-1";
  bool allows_anonymous = false;
  bool allows_listing = true;
  bool requester_pays = false;
  bool is_behind_tls = false;  ///< bodies need not be hashed
  size_t most_uploads = 1000;  ///< of a page of `ListMultipartUploads`
  bool keeps_metadata = true;  ///< of objects that are written
  /// Fields, in lower case, with which nothing is written: this status, `NotImplemented`
  std::map<std::string, int> not_implemented = {};
  std::chrono::seconds clock_ahead{0};
  /// The token that has ended when this request comes. Null: none
  std::function<std::string(const ServedRequest&)> ended_token = nullptr;
};

struct ObjectServerOptions {
  /// Of each request; called on the server's thread. Null: nothing goes wrong
  std::function<ServedFault(const ServedRequest&)> fault = nullptr;
  std::chrono::milliseconds first_byte{0};  ///< that an answer takes before its head
  double bytes_per_second = 0;              ///< of one connection; 0: any
  double all_bytes_per_second = 0;          ///< of all of them; 0: any
  /// How many bytes of a body may be read now, of which so many were; 0: it is asked again soon. Called on the server's
  /// thread. Null: all
  std::function<size_t(const ServedRequest&, size_t read)> upload_pace = nullptr;
  /// Objects are those of S3, `BUCKET/KEY`. Default: none, any that asks gets them
  std::optional<S3ServiceOptions> s3 = {};
};

/// An HTTP/1.1 server of objects in memory, on a port of 127.0.0.1 of its own and one thread: ranges, entity tags,
/// `If-Match` and `If-Unmodified-Since`, kept connections; signatures, listings and uploads of S3. What goes wrong is
/// what the test says of each request.
class ObjectServer {
 public:
  explicit ObjectServer(ObjectServerOptions options = {});
  ~ObjectServer();
  ObjectServer(const ObjectServer&) = delete;
  ObjectServer& operator=(const ObjectServer&) = delete;

  /// Puts an object at `/NAME`, in place of an earlier one. In URLs the name is percent-encoded.
  void put(const std::string& name, std::string content);
  void remove(const std::string& name);
  /// The content of an object, or nothing.
  [[nodiscard]] std::optional<std::string> content(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> names() const;  ///< of all objects, in order
  /// Paths of uploads in parts that nobody has completed or ended, `/BUCKET/KEY`.
  [[nodiscard]] std::vector<std::string> unfinished_uploads() const;
  /// `http://127.0.0.1:PORT/NAME`
  [[nodiscard]] std::string url(const std::string& name) const;
  /// All so far, in their order.
  [[nodiscard]] std::vector<ServedRequest> requests() const;
  /// The most requests that were in work at a time.
  [[nodiscard]] size_t most_in_flight() const;
  /// Those that are in work now.
  [[nodiscard]] size_t in_flight() const;

 private:
  class Server;
  const std::unique_ptr<Server> server_;
};

}  // namespace millrace::test
