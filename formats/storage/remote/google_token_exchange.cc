#include "millrace/formats/storage/remote/google_token_exchange.h"

#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/base64.h"
#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/google_error.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/small_file.h"
#include "millrace/formats/storage/shown_url.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

using Type = GoogleCredentialsFile::Type;

constexpr size_t kMostSubject = 1 << 20;
constexpr size_t kShortestToken = 8;
// With which an account may be impersonated.
constexpr const char* kScopeOfAll = "https://www.googleapis.com/auth/cloud-platform";

// One request after the other, up to the token.
class Exchange final : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(HttpCalls calls, GoogleCredentialsFile file, std::string scope, std::function<void(GoogleTokenResult)> done)
      : calls_(std::move(calls)), file_(std::move(file)), scope_(std::move(scope)), done_(std::move(done)) {}

  void start() noexcept {
    try {
      if (file_.type != Type::kExternalAccount) return ask_endpoint("");
      if (file_.subject.file.empty()) return ask_for_subject();
      asked_ = excerpt(printable(file_.subject.file), 200);
      const std::optional<std::string> text = read_small_file(file_.subject.file, kMostSubject);
      if (!text) throw ErrorException(ErrorCode::kIo, "there is no such file");
      take_subject(*text);
    } catch (...) {
      done_({.error = fmt::format("{}{}{}", asked_, asked_.empty() ? "" : ": ", current_reason())});
    }
  }

 private:
  using Take = void (Exchange::*)(const std::string& body);

  void ask_for_subject() {
    HttpRequest get{.url = file_.subject.url, .without_proxy = file_.subject.url.starts_with("http://")};
    for (const auto& [name, value] : file_.subject.headers) {
      get.headers.add(name, value);
      // `Bearer TOKEN`, and not `Metadata: true`.
      for (const std::string& part : {value, value.substr(value.rfind(' ') + 1)}) {
        if (part.size() >= kShortestToken) hide_signed(part);
      }
    }
    hide_query(file_.subject.url);
    ask(std::move(get), &Exchange::take_subject);
  }
  void take_subject(const std::string& body) { ask_endpoint(parse_subject_token(body, file_.subject)); }

  void ask_endpoint(const std::string& subject_token) {
    HttpRequest post{.method = HttpMethod::kPost, .url = file_.token_uri};
    post.headers.add("Content-Type", "application/x-www-form-urlencoded");
    if (file_.type == Type::kExternalAccount && !file_.client_id.empty()) {
      const std::string client = encode_base64(fmt::format("{}:{}", file_.client_id, file_.client_secret));
      post.headers.add("Authorization", "Basic " + client);
      hide(client);
    }
    // Signed once: its claims hold for longer than anybody asks again.
    post.body =
        google_token_form(file_, file_.impersonation ? kScopeOfAll : scope_, calls_.engine->wall_now(), subject_token);
    hide(file_.client_secret);
    hide(file_.refresh_token);
    hide_signed(subject_token);
    constexpr std::string_view kAssertion = "assertion=";
    if (const size_t at = post.body.find(kAssertion); at != std::string::npos) {
      hide_signed(post.body.substr(at + kAssertion.size()));
    }
    ask(std::move(post), &Exchange::take_token);
  }
  void take_token(const std::string& body) {
    GoogleTokenAnswer token = parse_google_token(body);
    if (file_.impersonation) return impersonate(token.access_token);
    done_({.token = std::move(token), .asked_at = asked_at_});
  }

  void impersonate(const std::string& access_token) {
    HttpRequest post{.method = HttpMethod::kPost,
                     .url = file_.impersonation->url,
                     .body = impersonation_body(*file_.impersonation, scope_)};
    post.headers.add("Content-Type", "application/json");
    post.headers.add("Authorization", "Bearer " + access_token);
    hide(access_token);
    ask(std::move(post), &Exchange::take_impersonated);
  }
  void take_impersonated(const std::string& body) {
    done_({.token = parse_impersonated_token(body, asked_at_), .asked_at = asked_at_});
  }

  void ask(HttpRequest request, Take take) {
    request.deadlines = kGoogleTokenDeadlines;
    asked_ = excerpt(shown_url(request.url), 200);
    asked_at_ = calls_.engine->wall_now();
    static_cast<void>(RetriedCall::start(
        calls_,
        {.request = [request = std::move(request)](const auto& ready) { ready({.request = request}); },
         .outcome = &google_token_outcome,
         .done = [self = shared_from_this(), take](const HttpResponse& response,
                                                   int attempts) { self->answered(response, attempts, take); }}));
  }

  void answered(const HttpResponse& response, int attempts, Take take) noexcept {
    const std::string asked = asked_;
    std::string reason;
    try {
      if (response.failure == HttpFailure::kNone && response.head.status == 200) return (this->*take)(response.body);
      reason = google_token_refusal(response, secrets_);
    } catch (...) {
      reason = current_reason();
    }
    done_({.error = fmt::format("{}: {}{}", asked, reason, attempts_text(attempts))});
  }

  void hide(const std::string& secret) {
    secrets_.push_back(secret);
    secrets_.push_back(percent_encoded(secret));
  }
  // It may be a key; servers repeat what they do not know.
  void hide_query(const std::string& url) {
    const size_t begin = url.find('?');
    if (begin == std::string::npos) return;
    std::string query = url.substr(begin + 1);
    if (query.size() >= kShortestToken) hide(query);
    query += '&';
    for (size_t at = 0; at < query.size(); at = query.find('&', at) + 1) {
      const size_t end = query.find('&', at);
      const size_t equals = query.find('=', at);
      const size_t value = equals < end ? equals + 1 : at;
      if (end - value < kShortestToken) continue;
      const std::string text = query.substr(value, end - value);
      hide(text);
      hide(percent_decoded(text));
    }
  }
  // A JSON Web Token, and its signature, which alone is worth something, too.
  void hide_signed(const std::string& token) {
    hide(token);
    const std::string signature = token.substr(token.rfind('.') + 1);
    if (signature.size() >= kShortestToken) hide(signature);
  }

  const HttpCalls calls_;
  const GoogleCredentialsFile file_;
  const std::string scope_;
  const std::function<void(GoogleTokenResult)> done_;
  // Of the request in flight.
  std::string asked_;  // its URL; before the first one the file of a subject token, or empty
  std::chrono::system_clock::time_point asked_at_;
  std::vector<std::string> secrets_;  // of all until now
};

}  // namespace

void ask_for_google_token(HttpCalls calls, GoogleCredentialsFile file, std::string scope,
                          std::function<void(GoogleTokenResult)> done) {
  std::make_shared<Exchange>(std::move(calls), std::move(file), std::move(scope), std::move(done))->start();
}

AttemptOutcome google_token_outcome(const HttpResponse& response) {
  if (response.failure == HttpFailure::kTransport || response.failure == HttpFailure::kTimeout) {
    return AttemptOutcome::kTransport;
  }
  return response.failure == HttpFailure::kNone && is_busy_status(response.head.status) ? AttemptOutcome::kBusy
                                                                                        : AttemptOutcome::kAnswered;
}

std::string google_token_refusal(const HttpResponse& response, const std::vector<std::string>& secrets) {
  if (response.failure != HttpFailure::kNone) return without_secrets(response.reason, secrets);
  const GoogleError error = parse_google_error(response.head.status, without_secrets(response.body, secrets));
  return without_secrets(error.to_string(), secrets);
}

std::string attempts_text(int attempts) { return attempts > 1 ? fmt::format(" (after {} attempts)", attempts) : ""; }

std::string current_reason() {
  const Error error = current_exception_as_error();
  return error.shard.empty() ? error.message : fmt::format("{} ({})", error.message, error.shard);
}

}  // namespace millrace
