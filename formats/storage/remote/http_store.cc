#include "millrace/formats/storage/remote/http_store.h"

#include <atomic>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/s3_error.h"

namespace millrace {
namespace {

class HttpStoreCall final : public StoreCall {
 public:
  HttpStoreCall(std::string url, std::optional<ObjectVersion> pin) : url_(std::move(url)), pin_(std::move(pin)) {}

  void prepare(HttpRequest request, Ready ready) override {
    if (request.url.empty()) request.url = url_;
    has_query_ = request.url.find('?') != std::string::npos;
    request.headers.add("Accept-Encoding", "identity");
    if (pin_) add_condition(request, *pin_);
    ready({.request = std::move(request)});
  }

  StoreOutcome judge(const HttpResponse& response) override {
    const int status = response.head.status;
    StoreOutcome outcome{.text = fmt::format("status {}", status)};
    if (const std::string said = said_in(response); !said.empty()) outcome.text += ": " + one_line(said);
    for (const char* id : {"x-amz-request-id", "x-request-id"}) {
      if (const std::string* value = response.head.headers.find(id)) {
        outcome.text += fmt::format(" ({} {})", id, one_line(*value));
      }
    }
    if (is_busy_status(status)) {
      outcome.kind = StoreOutcome::Kind::kBusy;
    } else if (status == 404 || status == 410) {
      outcome.kind = StoreOutcome::Kind::kNotFound;
    } else if (status == 412 && pin_) {
      outcome.kind = StoreOutcome::Kind::kChanged;
    } else if (status == 301 || status == 302 || status == 303 || status == 307 || status == 308) {
      outcome.kind = StoreOutcome::Kind::kRedirect;
    }
    return outcome;
  }

 private:
  // Servers repeat what they were sent. Where a query may be a signature, only the code and the message are taken that
  // stores with such URLs have in their errors.
  std::string said_in(const HttpResponse& response) const {
    if (!has_query_) return response.body;
    const S3Error error = parse_s3_error(response);
    return error.message.empty() ? error.code : fmt::format("{}: {}", error.code, error.message);
  }

  const std::string url_;
  const std::optional<ObjectVersion> pin_;
  std::atomic<bool> has_query_ = false;  // the URL of the last attempt, which redirects change
};

}  // namespace

std::shared_ptr<StoreCall> HttpStore::read(const std::string& url, const std::optional<ObjectVersion>& pin) {
  static_cast<void>(parse_http_url(url));  // it must be one, without a password
  return std::make_shared<HttpStoreCall>(url, pin);
}

}  // namespace millrace
