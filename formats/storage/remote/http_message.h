#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

enum class HttpMethod { kGet, kHead, kPut, kPost, kDelete };

[[nodiscard]] std::string_view to_string(HttpMethod method);

/// Fields of a message, in their order; names are compared without case.
class HttpHeaders {
 public:
  void add(std::string name, std::string value) { fields_.emplace_back(std::move(name), std::move(value)); }
  /// The value of the first field of this name, or null.
  [[nodiscard]] const std::string* find(std::string_view name) const;
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& fields() const { return fields_; }
  void clear() { fields_.clear(); }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

/// How long a call may take. While a body is sent, `least_bytes` more of it, or its end, begin all of these anew: how
/// long it takes is up to the network, and only one that stands still or trickles is given up.
struct HttpDeadlines {
  /// From the beginning, connecting included, to the first byte of the answer. Default: 15 s
  std::chrono::milliseconds first_byte{15'000};
  /// Without `least_bytes` more of a body. Default: 15 s
  std::chrono::milliseconds stall{15'000};
  size_t least_bytes = 240 << 10;  ///< Default: 240 KiB, which is 16 KiB/s
  /// In all. Default: 30 s, to which come the bytes that are asked for at 1 MiB/s
  std::chrono::milliseconds whole{30'000};
};

/// The head of an answer.
struct HttpHead {
  int status = 0;
  HttpHeaders headers = {};

  /// Takes a line of it, with or without its end: the status line, with which it begins anew, or a field, in which
  /// bytes that no value may have become spaces (RFC 9110, 5.5). What is neither is passed over.
  void add_line(std::string_view line);
};

/// What becomes of a body once its head is known.
struct HttpBodyPlan {
  /// The bytes go there, in order; more than fit are an error. Default: into `HttpResponse::body`
  std::optional<std::span<std::byte>> into = {};
  /// Reads no more than fit, and breaks the connection off. Default: false
  bool may_be_cut = false;
  /// The answer is of no use, for this reason: nothing of its body is read. Default: empty
  std::string refusal = {};
};

/// Bytes of a buffer that others have too: what is sent of it is not copied for each attempt.
struct SharedBytes {
  std::shared_ptr<const std::string> buffer = {};  ///< null: there are none
  size_t begin = 0;
  size_t size = 0;

  [[nodiscard]] std::string_view view() const {
    return buffer == nullptr ? std::string_view() : std::string_view(*buffer).substr(begin, size);
  }
};

struct HttpRequest {
  HttpMethod method = HttpMethod::kGet;
  std::string url = {};  ///< `http://` or `https://`, percent-encoded
  HttpHeaders headers = {};
  std::string body = {};
  SharedBytes shared_body = {};  ///< in place of `body`. Default: none
  HttpDeadlines deadlines = {};
  /// Straight to the host, whatever proxies the environment names: for addresses of the machine itself. Default: false
  bool without_proxy = false;
  bool is_retry = false;  ///< for `HttpStatistics`. Default: false
  /// At most 64 KiB are asked for: the time goes into the way, and many are sent at a time. Default: false
  bool is_small = false;
  /// Bytes of the answer that is expected: the request reads them and changes nothing, and is sent a second time where
  /// it is slow (`HedgePolicy`). What the `plan` says must hold for both answers; their bytes go to the same place.
  /// Default: 0, it is sent once
  size_t hedged_bytes = 0;
  /// Of a body without a `plan`: more are an error. Default: 16 MiB, and a page of a listing is some 300 KB
  size_t most_body = 16 << 20;
  /// Is asked on the engine's thread when the head is there. Null: every body goes into `HttpResponse::body`
  std::function<HttpBodyPlan(const HttpHead&)> plan = nullptr;

  /// What is sent: one of both bodies.
  [[nodiscard]] std::string_view content() const { return shared_body.buffer ? shared_body.view() : body; }
};

/// Why there is no whole answer.
enum class HttpFailure {
  kNone,
  kTransport,  ///< no connection, or it broke off
  kTimeout,    ///< a deadline
  kRefused,    ///< by the `plan`; or no connection can be made, for the URL, certificates or a proxy
  kTooLong,    ///< the body had more bytes than there was room for
  kCancelled,
};

struct HttpResponse {
  HttpHead head = {};     ///< status 0: none came
  std::string body = {};  ///< at most `HttpRequest::most_body`
  size_t bytes = 0;       ///< of the body, in the place that the plan gave, also where it failed later
  HttpFailure failure = HttpFailure::kNone;
  std::string reason = {};             ///< of the failure
  std::chrono::nanoseconds waited{0};  ///< until the call was sent, for others to the same host
};

/// Is told what a call came to. Called exactly once, on the engine's thread; must not block and must not throw.
class HttpSink {
 public:
  virtual ~HttpSink() = default;
  virtual void answered(HttpResponse response) noexcept = 0;
};

/// Whether a status says that asking again later may help.
[[nodiscard]] bool is_busy_status(int status);

/// Without these: a server may repeat what it was sent.
[[nodiscard]] std::string without_secrets(std::string text, const std::vector<std::string>& secrets);

/// Beginning of a text from elsewhere, for messages, on one line.
[[nodiscard]] std::string one_line(std::string_view text);

}  // namespace millrace
