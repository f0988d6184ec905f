#include "millrace/formats/storage/remote/gcs_store.h"

#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/gcs_listing.h"
#include "millrace/formats/storage/remote/gcs_upload.h"
#include "millrace/formats/storage/remote/google_error.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

using Tokens = Refreshed<GoogleToken>;

constexpr size_t kMostShown = 200;

bool is_rate_limit(const GoogleError& error) {
  return error.status == 403 && (error.reason == "rateLimitExceeded" || error.reason == "userRateLimitExceeded");
}

// 404 is also of a bucket that is not there; only the text says which.
bool is_missing_object(const GoogleError& error) {
  return error.status == 404 && error.message.find("bucket does not exist") == std::string::npos;
}

StoreOutcome::Kind kind_of(const GoogleError& error, const std::optional<ObjectVersion>& pin) {
  using Kind = StoreOutcome::Kind;
  if (is_busy_status(error.status) || is_rate_limit(error)) return Kind::kBusy;
  // Of a generation that was asked for by its number.
  const bool is_gone = is_missing_object(error) && pin && !pin->generation.empty();
  if (is_gone || (error.status == 412 && pin)) return Kind::kChanged;
  return is_missing_object(error) ? Kind::kNotFound : Kind::kFinal;
}

// Throws where the URL has no key.
ObjectUrl object_of(const std::string& url) {
  ObjectUrl object = parse_gcs_url(url);
  if (object.key.empty()) throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("'{}' names no object", url));
  return object;
}

GcsService service_of(const GcsOptions& options, const std::optional<std::string>& emulator) {
  GcsService service{.user_project = options.user_project};
  if (!options.endpoint.empty()) {
    service.endpoint = gcs_endpoint(options.endpoint, "the endpoint of Google Cloud Storage");
  } else if (emulator) {
    service.endpoint = *emulator;
  }
  return service;
}

// A token is shown to hosts of Google's alone, unless it was given for this endpoint.
GoogleCredentialOptions credentials_of(GcsOptions options, const Environment& environment) {
  options.credentials.environment = environment;
  if (!options.credentials.is_emulator && !options.endpoint.empty()) {
    const std::string endpoint = gcs_endpoint(options.endpoint, "the endpoint of Google Cloud Storage");
    options.credentials.is_emulator =
        !endpoint.starts_with("https://") || !parse_http_url(endpoint).host.ends_with(".googleapis.com");
  }
  return std::move(options.credentials);
}

}  // namespace

StoreOutcome judge_gcs(const HttpResponse& response, const std::optional<ObjectVersion>& pin,
                       const std::vector<std::string>& secrets) {
  const GoogleError error = parse_google_error(response.head.status, without_secrets(response.body, secrets));
  StoreOutcome outcome{.kind = kind_of(error, pin), .text = error.to_string()};
  // Of a success it may be that of a session that has begun, whose objects whoever has it can write.
  const std::string* const id = response.head.headers.find("x-guploader-uploadid");
  if (id != nullptr && response.head.status / 100 != 2) {
    outcome.text += fmt::format(" (request {})", excerpt(printable(without_secrets(*id, secrets)), kMostShown));
  }
  return outcome;
}

class GcsStore::Call final : public StoreCall, public std::enable_shared_from_this<GcsStore::Call> {
 public:
  // `secrets`: what servers may repeat of the URL and errors must not.
  Call(GcsService service, std::shared_ptr<Tokens> tokens, std::string url, std::optional<ObjectVersion> pin,
       std::vector<std::string> secrets = {})
      : service_(std::move(service)),
        tokens_(std::move(tokens)),
        url_(std::move(url)),
        pin_(std::move(pin)),
        secrets_(std::move(secrets)) {}

  void prepare(HttpRequest request, Ready ready) override {
    tokens_->get([self = shared_from_this(), request = std::move(request),
                  ready = std::move(ready)](const Tokens::Fetched& fetched) mutable {
      if (fetched.value == nullptr) return ready(PreparedRequest::refused(fetched.error));
      self->complete(request, fetched.value);
      ready({.request = std::move(request)});
    });
  }

  StoreOutcome judge(const HttpResponse& response) override {
    const std::lock_guard lock(mutex_);
    StoreOutcome outcome = judge_gcs(response, pin_, sent_secrets());
    if (response.head.status == 401 && !std::exchange(renewed_, true)) {
      tokens_->discard(token_);
      outcome.kind = StoreOutcome::Kind::kAgain;
    }
    return outcome;
  }

  std::string shown(std::string text) const override {
    const std::lock_guard lock(mutex_);
    return without_secrets(std::move(text), sent_secrets());
  }

  std::string asked() const override {
    const std::lock_guard lock(mutex_);
    if (token_ == nullptr) return {};
    return fmt::format("; asked of {}, {}{}", service_.endpoint,
                       token_->access_token.empty() ? "" : "credentials: ", token_->source);
  }

 private:
  // Under the lock.
  std::vector<std::string> sent_secrets() const {
    std::vector<std::string> secrets = secrets_;
    if (token_ != nullptr) secrets.push_back(token_->access_token);
    return secrets;
  }

  void complete(HttpRequest& request, std::shared_ptr<const GoogleToken> token) {
    request.url = url_;
    // Else the server unpacks what is marked as gzip, and sends no ranges of it
    // (https://cloud.google.com/storage/docs/transcoding). Nobody unpacks it here.
    if (request.headers.find("Range") != nullptr) request.headers.add("Accept-Encoding", "gzip");
    // The URL of a session is the server's word for where it is, and needs no other proof.
    const bool is_shown = origin_of(url_) == origin_of(service_.endpoint);
    if (is_shown && !token->access_token.empty()) request.headers.add("Authorization", "Bearer " + token->access_token);
    // Who pays is in the query where it is said.
    if (is_shown && !token->quota_project.empty() && service_.user_project.empty()) {
      request.headers.add("x-goog-user-project", token->quota_project);
    }
    const std::lock_guard lock(mutex_);
    token_ = std::move(token);
  }

  const GcsService service_;
  const std::shared_ptr<Tokens> tokens_;
  const std::string url_;
  const std::optional<ObjectVersion> pin_;
  const std::vector<std::string> secrets_;
  mutable std::mutex mutex_;                  // an attempt that was given up may still come to its request
  std::shared_ptr<const GoogleToken> token_;  // of the last attempt
  bool renewed_ = false;
};

GcsStore::GcsStore(GcsOptions options, const HttpCalls& calls, const Environment& environment)
    : service_(service_of(options, gcs_emulator(environment))),
      tokens_(google_credentials(calls.engine, credentials_of(std::move(options), environment))) {}

std::shared_ptr<StoreCall> GcsStore::read(const std::string& url, const std::optional<ObjectVersion>& pin) {
  const ObjectUrl object = object_of(url);
  return std::make_shared<Call>(service_, tokens_, gcs_media_url(service_, object, pin ? pin->generation : ""), pin);
}

std::shared_ptr<StoreCall> GcsStore::list(const ListRequest& request) {
  return std::make_shared<Call>(service_, tokens_, gcs_list_url(service_, request), std::nullopt);
}

std::unique_ptr<StoreUpload> GcsStore::upload(const HttpCalls& calls, const std::string& url,
                                              const OutputOptions& options) {
  const auto make_call = [service = service_, tokens = tokens_](std::string to, std::vector<std::string> secrets) {
    return std::make_shared<Call>(service, tokens, std::move(to), std::nullopt, std::move(secrets));
  };
  return std::make_unique<GcsUpload>(calls, service_, object_of(url), make_call, options);
}

std::shared_ptr<StoreCall> GcsStore::call_of_object(const std::string& url) {
  return std::make_shared<Call>(service_, tokens_, gcs_resource_url(service_, object_of(url)), std::nullopt);
}

ListedPage GcsStore::parse_page(std::string_view body) const { return parse_gcs_page(body); }

std::string GcsStore::name() const { return "gs " + service_.endpoint; }

}  // namespace millrace
