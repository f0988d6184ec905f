#include "millrace/formats/storage/remote/s3_store.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/http_date.h"
#include "millrace/formats/storage/remote/http_store.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/s3_credentials.h"
#include "millrace/formats/storage/remote/s3_error.h"
#include "millrace/formats/storage/remote/s3_listing.h"
#include "millrace/formats/storage/remote/s3_multipart.h"
#include "millrace/formats/storage/remote/s3_regions.h"
#include "millrace/formats/storage/remote/s3_signature.h"
#include "millrace/formats/storage/remote/s3_upload.h"
#include "millrace/formats/storage/shown_url.h"

namespace millrace {

using Credentials = Refreshed<AwsCredentials>;

// What all requests have in common.
class S3Store::Shared {
 public:
  Shared(S3Config config, const HttpCalls& calls, const Environment& environment)
      : config_(std::move(config)),
        engine_(calls.engine),
        regions_(config_, calls),
        credentials_(s3_credentials(config_, calls.engine, environment)) {}

  const S3Config& config() const { return config_; }
  S3Regions& regions() { return regions_; }
  Credentials& credentials() { return *credentials_; }
  const std::shared_ptr<S3Conditions>& conditions() const { return conditions_; }

  // By the clock of the store, as far as it is known.
  std::chrono::system_clock::time_point now() const {
    return engine_->wall_now() + std::chrono::seconds(clock_is_behind_.load());
  }
  void set_clock(std::chrono::system_clock::time_point store) {
    clock_is_behind_ = std::chrono::duration_cast<std::chrono::seconds>(store - engine_->wall_now()).count();
  }

 private:
  const S3Config config_;
  const std::shared_ptr<HttpEngine> engine_;
  S3Regions regions_;
  const std::shared_ptr<Credentials> credentials_;
  const std::shared_ptr<S3Conditions> conditions_ = std::make_shared<S3Conditions>();
  std::atomic<int64_t> clock_is_behind_{0};  // seconds
};

namespace {

constexpr int kMostRedirects = 3;

// What is signed of a body: TLS guards it on its way, and to hash it takes longer than to send it.
std::string content_hash(const HttpRequest& request) {
  if (request.content().empty()) return std::string(kSha256OfNothing);
  return request.url.starts_with("https://") ? "UNSIGNED-PAYLOAD" : sha256_hex(request.content());
}

// Throws where the URL has no key.
ObjectUrl object_of(const std::string& url) {
  ObjectUrl parts = parse_object_url(url);
  if (parts.key.empty())
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("'{}' names no object", one_line(url)));
  return parts;
}

std::string path_of(const ObjectUrl& object) { return "/" + percent_encoded(object.key, "/"); }

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> of) {
  return std::find(of.begin(), of.end(), text) != of.end();
}

}  // namespace

class S3Store::Call final : public StoreCall, public std::enable_shared_from_this<S3Store::Call> {
 public:
  // `rest`: `/KEY` or `/?QUERY`, percent-encoded. `secrets`: what stores may repeat of it and errors must not.
  Call(std::shared_ptr<Shared> shared, std::string bucket, std::string rest, std::optional<ObjectVersion> pin,
       std::vector<std::string> secrets = {})
      : shared_(std::move(shared)),
        bucket_(std::move(bucket)),
        rest_(std::move(rest)),
        pin_(std::move(pin)),
        secrets_(std::move(secrets)) {}

  void prepare(HttpRequest request, Ready ready) override {
    shared_->regions().get(bucket_, [self = shared_from_this(), request = std::move(request), ready = std::move(ready)](
                                        std::string region, std::string error) mutable {
      if (!error.empty()) return ready(PreparedRequest::refused(std::move(error)));
      self->prepare_in(std::move(region), std::move(request), std::move(ready));
    });
  }

  StoreOutcome judge(const HttpResponse& response) override {
    const S3Error error = parse_s3_error(response);
    const std::lock_guard lock(mutex_);
    StoreOutcome outcome{.kind = kind_of(response, error), .text = text_of(response, error)};
    if (outcome.kind != StoreOutcome::Kind::kAgain) {
      redirected_to_.clear();
      redirects_ = 0;
    }
    return outcome;
  }

  bool is_page(const HttpResponse& response) const override {
    return response.head.status == 200 && !has_s3_error(response.body);
  }

  std::string shown(std::string text) const override {
    const std::lock_guard lock(mutex_);
    return without_own(std::move(text));
  }

  std::string asked() const override {
    const std::lock_guard lock(mutex_);
    if (used_.endpoint.empty()) return {};
    return fmt::format("; asked of {}, region {}, {}", one_line(used_.endpoint), used_.region, used_.as_whom);
  }

 private:
  // What the last attempt was asked with.
  struct Used {
    std::string endpoint = {};
    std::string region = {};
    std::string as_whom = {};
    std::shared_ptr<const AwsCredentials> credentials = nullptr;
    std::string signature = {};
  };

  void prepare_in(std::string region, HttpRequest request, Ready ready) {
    if (shared_->config().options.anonymous) return finish(region, nullptr, std::move(request), ready);
    shared_->credentials().get([self = shared_from_this(), region = std::move(region), request = std::move(request),
                                ready = std::move(ready)](const Credentials::Fetched& fetched) mutable {
      if (fetched.value == nullptr) return ready(PreparedRequest::refused(fetched.error));
      self->finish(region, fetched.value, std::move(request), ready);
    });
  }

  void finish(const std::string& region, std::shared_ptr<const AwsCredentials> credentials, HttpRequest request,
              const Ready& ready) {
    PreparedRequest prepared;
    try {
      prepared.request = complete(region, std::move(credentials), std::move(request));
    } catch (...) {
      prepared.error = current_exception_as_error().message;
    }
    ready(std::move(prepared));
  }

  HttpRequest complete(const std::string& region, std::shared_ptr<const AwsCredentials> credentials,
                       HttpRequest request) {
    const std::lock_guard lock(mutex_);
    request.url = redirected_to_.empty() ? s3_bucket_url(shared_->config(), bucket_, region) + rest_ : redirected_to_;
    if (pin_) add_condition(request, *pin_);
    request.headers.add("Accept-Encoding", "identity");
    if (shared_->config().options.requester_pays) request.headers.add("x-amz-request-payer", "requester");
    used_ = {.endpoint = parse_http_url(request.url).origin, .region = region, .as_whom = "unsigned"};
    if (credentials != nullptr && !credentials->is_anonymous()) {
      if (request.headers.find("x-amz-content-sha256") == nullptr) {
        request.headers.add("x-amz-content-sha256", content_hash(request));
      }
      sign_aws(request, *credentials, {.region = region, .time = shared_->now()});
      const std::string& field = *request.headers.find("Authorization");
      used_.signature = field.substr(field.rfind('=') + 1);
      used_.as_whom = "credentials: " + credentials->source;
      used_.credentials = std::move(credentials);
    } else if (credentials != nullptr) {
      used_.as_whom = fmt::format("unsigned, without credentials: {}", fmt::join(credentials->looked_at, ", "));
    }
    return request;
  }

  // All below is under the lock.

  StoreOutcome::Kind kind_of(const HttpResponse& response, const S3Error& error) {
    using Kind = StoreOutcome::Kind;
    const int status = response.head.status;
    const bool is_of_credentials = status == 401 || is_one_of(error.code, {"ExpiredToken", "InvalidToken"});
    if (is_of_credentials && used_.credentials != nullptr && !std::exchange(renewed_, true)) {
      shared_->credentials().discard(used_.credentials);
      return Kind::kAgain;
    }
    if (error.code == "RequestTimeTooSkewed" && !std::exchange(clock_set_, true)) {
      return set_clock(response) ? Kind::kAgain : Kind::kFinal;
    }
    if (error.code == "NotImplemented") return Kind::kFinal;  // status 501
    if (is_busy_status(status) ||
        is_one_of(error.code, {"RequestTimeout", "SlowDown", "InternalError", "OperationAborted",
                               "ConditionalRequestConflict", "ServiceUnavailable"})) {
      return Kind::kBusy;
    }
    const bool is_elsewhere = (status == 301 || status == 400) && is_region_name(error.region);
    if (is_elsewhere && error.region != used_.region && !std::exchange(region_corrected_, true)) {
      shared_->regions().correct(bucket_, error.region);
      return Kind::kAgain;
    }
    if ((status == 307 || status == 308 || status == 302) && follow(response.head)) return Kind::kAgain;
    if (status == 404 && error.code != "NoSuchBucket") return Kind::kNotFound;
    return status == 412 && pin_ ? Kind::kChanged : Kind::kFinal;
  }

  bool set_clock(const HttpResponse& response) {
    const std::string* const date = response.head.headers.find("Date");
    const auto time = date == nullptr ? std::nullopt : parse_http_date(*date);
    if (!time) return false;
    shared_->set_clock(*time);
    return true;
  }

  // Only to whom the signature may be shown.
  bool follow(const HttpHead& head) {
    const std::string* const location = head.headers.find("Location");
    if (location == nullptr || ++redirects_ > kMostRedirects) return false;
    const std::string from =
        redirected_to_.empty() ? s3_bucket_url(shared_->config(), bucket_, used_.region) + rest_ : redirected_to_;
    const auto target = redirect_target(from, *location);
    if (!target || !may_redirect_s3(shared_->config(), from, *target)) return false;
    redirected_to_ = *target;
    return true;
  }

  std::string text_of(const HttpResponse& response, const S3Error& error) const {
    const int status = response.head.status;
    std::string text = fmt::format("status {}", status);
    std::string said = error.code;
    if (!error.message.empty()) said += ": " + error.message;
    if (said.empty()) said = response.body;
    said = without_own(std::move(said));
    if (!said.empty()) text += ", " + one_line(said);
    if (!error.request_id.empty()) text += fmt::format(" (request {})", one_line(without_own(error.request_id)));
    if (const std::string* location = response.head.headers.find("Location")) {
      text += redirects_ > kMostRedirects
                  ? fmt::format("; more than {} redirects", kMostRedirects)
                  : fmt::format("; it leads to {}",
                                one_line(without_own(shown_url(location->substr(0, location->find('?'))))));
    }
    return text;
  }

  // Of a store that repeats what it was sent.
  std::string without_own(std::string said) const {
    said = without_secrets(std::move(said), secrets_);
    if (used_.credentials == nullptr) return said;
    const AwsCredentials& used = *used_.credentials;
    return without_secrets(std::move(said), {used_.signature, used.session_token, percent_encoded(used.session_token),
                                             used.secret_access_key, used.access_key_id});
  }

  const std::shared_ptr<Shared> shared_;
  const std::string bucket_;
  const std::string rest_;
  const std::optional<ObjectVersion> pin_;
  const std::vector<std::string> secrets_;
  mutable std::mutex mutex_;  // an attempt that was given up may still come to its request
  Used used_;
  std::string redirected_to_;
  int redirects_ = 0;
  bool renewed_ = false;
  bool clock_set_ = false;
  bool region_corrected_ = false;
};

S3Store::S3Store(const S3Options& options, const HttpCalls& calls, const Environment& environment)
    : shared_(std::make_shared<Shared>(resolve_s3(options, environment), calls, environment)) {}

std::shared_ptr<StoreCall> S3Store::read(const std::string& url, const std::optional<ObjectVersion>& pin) {
  const ObjectUrl object = object_of(url);
  return std::make_shared<Call>(shared_, object.bucket, path_of(object), pin);
}

std::unique_ptr<StoreUpload> S3Store::upload(const HttpCalls& calls, const std::string& url,
                                             const OutputOptions& options) {
  const ObjectUrl object = object_of(url);
  const auto make_call = [shared = shared_, object](const std::string& query, std::vector<std::string> secrets) {
    const std::string rest = path_of(object) + (query.empty() ? "" : "?" + query);
    return std::make_shared<Call>(shared, object.bucket, rest, std::nullopt, std::move(secrets));
  };
  const bool hashes = shared_->config().options.endpoint.starts_with("http://");
  return std::make_unique<S3Upload>(calls, url, make_call, hashes, shared_->conditions(), options);
}

std::shared_ptr<StoreCall> S3Store::list_uploads(const ObjectUrl& prefix, const std::string& page) {
  return std::make_shared<Call>(shared_, prefix.bucket, "/?" + s3_list_uploads_query(prefix.key, page), std::nullopt);
}

std::shared_ptr<StoreCall> S3Store::call_of_upload(const UnfinishedUpload& upload) {
  const ObjectUrl object = object_of(upload.url);
  const std::string id = percent_encoded(upload.id);
  return std::make_shared<Call>(shared_, object.bucket, path_of(object) + "?uploadId=" + id, std::nullopt,
                                std::vector<std::string>{upload.id, id});
}

std::shared_ptr<StoreCall> S3Store::list(const ListRequest& request) {
  return std::make_shared<Call>(shared_, request.bucket, "/?" + s3_list_query(request), std::nullopt);
}

ListedPage S3Store::parse_page(std::string_view body) const { return parse_s3_page(body); }

std::chrono::system_clock::time_point S3Store::now() const { return shared_->now(); }

bool S3Store::keeps_if_absent() const { return shared_->conditions()->if_none_match; }
bool S3Store::keeps_if_version() const { return shared_->conditions()->if_match; }

std::string S3Store::name() const { return "s3 " + shared_->config().options.endpoint; }

}  // namespace millrace
