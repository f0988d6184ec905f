#include "millrace/formats/storage/remote/aws_credential_sources.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/curl_url.h"
#include "millrace/formats/storage/remote/object_url.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using Answered = std::function<void(const HttpResponse&)>;

[[noreturn]] void refuse(const std::string& what) { throw ErrorException(ErrorCode::kIo, what); }

struct Address {
  std::string scheme;
  std::string host;  // in brackets for IPv6
  bool has_user = false;
  // As errors show it: a path may be a secret.
  std::string shown() const { return fmt::format("{}://{}", scheme, host); }
};

// As libcurl will read the URL. `what` names who said it.
Address address_of(const std::string& url, std::string_view what) {
  const std::unique_ptr<CURLU, CurlUrlDeleter> parsed(curl_url());
  if (parsed == nullptr) throw std::bad_alloc();
  const auto part = [&](CURLUPart which) {
    char* text = nullptr;
    if (curl_url_get(parsed.get(), which, &text, 0) != CURLUE_OK) return std::string();
    return std::string(std::unique_ptr<char, CurlUrlDeleter>(text).get());
  };
  Address address;
  if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) == CURLUE_OK) {
    address = {
        .scheme = part(CURLUPART_SCHEME), .host = part(CURLUPART_HOST), .has_user = !part(CURLUPART_USER).empty()};
  }
  if (address.host.empty() || (address.scheme != "http" && address.scheme != "https")) {
    refuse(fmt::format("{} is no URL of http or https", what));
  }
  return address;
}

// Where keys of a container may come from without TLS.
bool is_of_machine(const std::string& host) {
  if (host == "localhost" || host == "[::1]" || host == "169.254.170.2" || host == "169.254.170.23" ||
      host == "[fd00:ec2::23]") {
    return true;
  }
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos;
}

std::string reason_of(const HttpResponse& response) {
  return response.failure != HttpFailure::kNone ? response.reason : fmt::format("status {}", response.head.status);
}

// With what the answer says of it, as long as that is not a secret.
std::string reason_of(const HttpResponse& response, const std::string& secret) {
  const std::string refusal = refusal_of(response.body, secret);
  return refusal.empty() ? reason_of(response) : fmt::format("{}, {}", reason_of(response), refusal);
}

bool is_ok(const HttpResponse& response) {
  return response.failure == HttpFailure::kNone && response.head.status == 200;
}

// How long a source is asked.
struct Patience {
  milliseconds of_attempt;
  int attempts;
  milliseconds in_all;
};
constexpr Patience kOfSts{.of_attempt = milliseconds(12'000), .attempts = 3, .in_all = milliseconds(30'000)};
constexpr Patience kOfContainer{.of_attempt = milliseconds(5'000), .attempts = 3, .in_all = milliseconds(15'000)};
constexpr Patience kOfInstance{.of_attempt = milliseconds(1'000), .attempts = 2, .in_all = milliseconds(5'000)};

void ask(const AwsSources& sources, HttpRequest request, const Patience& patience, Answered answered) {
  request.deadlines = {.first_byte = patience.of_attempt, .stall = patience.of_attempt, .whole = patience.of_attempt};
  const auto outcome = [left = patience.attempts](const HttpResponse& response) mutable {
    const int status = response.head.status;
    if (--left <= 0) return AttemptOutcome::kAnswered;
    if (response.failure != HttpFailure::kNone) return AttemptOutcome::kTransport;
    // STS says of the one who gave the token that it does not answer.
    const bool may_help =
        is_busy_status(status) || (status == 400 && refusal_of(response.body, "").starts_with("IDPCommunicationError"));
    return may_help ? AttemptOutcome::kBusy : AttemptOutcome::kAnswered;
  };
  RetriedCall::start(
      {.engine = sources.engine,
       .budget = sources.budget,
       .retries = {.longest_wait = milliseconds(1'000), .give_up_after = patience.in_all}},
      {.request = [request = std::move(request)](const auto& ready) { ready({.request = request}); },
       .outcome = outcome,
       .done = [answered = std::move(answered)](const HttpResponse& response, int) { answered(response); }});
}

// Tells what the function gives, or throws.
template <typename Function>
void tell(const AwsSources::Done& done, Function function) {
  AwsSourceResult result;
  try {
    result = function();
  } catch (...) {
    result = {.reason = current_exception_as_error().message};
  }
  done(std::move(result));
}

// The same as a part of a reason.
template <typename Function>
auto named(const std::string& who, Function function) {
  try {
    return function();
  } catch (const ErrorException& exception) {
    refuse(fmt::format("{}: {}", who, exception.error().message));
  }
}

// One conversation with the metadata of an instance.
class Instance : public std::enable_shared_from_this<Instance> {
 public:
  Instance(AwsSources sources, std::string endpoint, AwsSources::Done done)
      : sources_(std::move(sources)), endpoint_(std::move(endpoint)), done_(std::move(done)) {}

  void ask_token() {
    HttpRequest request{.method = HttpMethod::kPut, .url = endpoint_ + "/latest/api/token", .without_proxy = true};
    request.headers.add("x-aws-ec2-metadata-token-ttl-seconds", "21600");
    ask(sources_, std::move(request), kOfInstance,
        [self = shared_from_this()](const HttpResponse& response) { self->take_token(response); });
  }

 private:
  void ask_for(const std::string& role, void (Instance::*take)(const HttpResponse&)) {
    HttpRequest request{.url = endpoint_ + "/latest/meta-data/iam/security-credentials/" + role, .without_proxy = true};
    request.headers.add("x-aws-ec2-metadata-token", token_);
    ask(sources_, std::move(request), kOfInstance,
        [self = shared_from_this(), take](const HttpResponse& response) { ((*self).*take)(response); });
  }

  void take_token(const HttpResponse& response) noexcept {
    go_on([&] {
      // It is there, and fails: who is taken for anonymous then stays so.
      if (response.failure == HttpFailure::kNone && response.head.status >= 500) {
        refuse(fmt::format("its token: {}", reason_of(response)));
      }
      if (!is_ok(response)) return end({.reason = reason_of(response), .is_absent = true});
      token_ = first_line(response.body);
      check_aws_key("its token", token_);
      ask_for("", &Instance::take_role);
    });
  }
  void take_role(const HttpResponse& response) noexcept {
    go_on([&] {
      if (response.failure == HttpFailure::kNone && response.head.status == 404) {
        return end({.reason = "the instance has no role", .is_absent = true});
      }
      if (!is_ok(response)) refuse(fmt::format("its role: {}", reason_of(response)));
      const std::string role = first_line(response.body);
      // https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
      const bool is_name = !role.empty() && role.size() <= 64 && std::ranges::all_of(role, [](char c) {
        return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
               std::string_view("_+=,.@-").find(c) != std::string_view::npos;
      });
      if (!is_name) refuse("its answer is no name of a role");
      role_ = role;
      ask_for(role, &Instance::take_keys);
    });
  }
  void take_keys(const HttpResponse& response) noexcept {
    go_on([&] {
      if (!is_ok(response)) refuse(reason_of(response));
      AwsCredentialAnswer answer = credentials_of_metadata(response.body);
      // While EC2 cannot renew them it gives old ones, which are taken for longer than they say.
      const auto soon = sources_.engine->wall_now() + std::chrono::minutes(1);
      if (answer.ends && *answer.ends < soon) answer.ends = soon + std::chrono::minutes(9);
      end({.answer = std::move(answer), .detail = detail()});
    });
  }

  template <typename Function>
  void go_on(Function function) noexcept {
    std::string reason;
    try {
      return function();
    } catch (...) {
      reason = current_exception_as_error().message;
    }
    end({.reason = std::move(reason), .detail = detail()});
  }
  void end(AwsSourceResult result) { done_(std::move(result)); }
  std::string detail() const { return role_.empty() ? "" : fmt::format("role {}", role_); }

  static std::string first_line(const std::string& text) { return text.substr(0, text.find_first_of("\r\n")); }

  const AwsSources sources_;
  const std::string endpoint_;
  const AwsSources::Done done_;
  std::string token_;
  std::string role_;
};

}  // namespace

void AwsSources::ask_sts(const std::string& endpoint, const std::string& role_arn, const std::string& session_name,
                         const std::string& token, Done done) const {
  const std::string shown = "STS at " + address_of(endpoint, "the endpoint of STS").shown();
  HttpRequest request{.method = HttpMethod::kPost, .url = endpoint.ends_with('/') ? endpoint : endpoint + "/"};
  request.headers.add("Content-Type", "application/x-www-form-urlencoded; charset=utf-8");
  request.body = fmt::format(
      "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn={}&RoleSessionName={}&WebIdentityToken={}",
      percent_encoded(role_arn), percent_encoded(session_name), percent_encoded(token));
  ask(*this, std::move(request), kOfSts, [done = std::move(done), shown, token](const HttpResponse& response) {
    tell(done, [&]() -> AwsSourceResult {
      if (!is_ok(response)) return {.reason = fmt::format("{}: {}", shown, reason_of(response, token))};
      return {.answer = named(shown, [&] { return credentials_of_sts(response.body); })};
    });
  });
}

void AwsSources::ask_container(const std::string& url, const std::string& authorization, Done done) const {
  const Address address = address_of(url, "it");
  const bool is_plain = address.scheme == "http";
  const std::string shown = address.shown();
  if (address.has_user || (is_plain && !is_of_machine(address.host))) {
    refuse(fmt::format("{} is neither https nor an address of the machine itself", shown));
  }
  HttpRequest request{.url = url, .without_proxy = is_plain};
  if (!authorization.empty()) request.headers.add("Authorization", authorization);
  ask(*this, std::move(request), kOfContainer,
      [done = std::move(done), shown, authorization](const HttpResponse& response) {
        tell(done, [&]() -> AwsSourceResult {
          if (!is_ok(response)) return {.reason = fmt::format("{}: {}", shown, reason_of(response, authorization))};
          return {.answer = named(shown, [&] { return credentials_of_metadata(response.body); })};
        });
      });
}

void AwsSources::ask_instance(const std::string& endpoint, Done done) const {
  const std::string shown = address_of(endpoint, "AWS_EC2_METADATA_SERVICE_ENDPOINT").shown();
  const std::string without_slash = endpoint.substr(0, endpoint.find_last_not_of('/') + 1);
  std::make_shared<Instance>(*this, without_slash, [shown, done = std::move(done)](AwsSourceResult result) {
    if (!result.answer) result.reason = fmt::format("{}: {}", shown, result.reason);
    done(std::move(result));
  })->ask_token();
}

std::string sts_endpoint(const Environment& environment, const AwsProfile& profile, std::string region) {
  if (const auto url = environment("AWS_ENDPOINT_URL_STS")) return *url;
  if (const auto url = environment("AWS_ENDPOINT_URL")) return *url;
  if (!profile.sts_endpoint_url.empty()) return profile.sts_endpoint_url;
  if (!profile.endpoint_url.empty()) return profile.endpoint_url;
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (region.empty()) region = environment(name).value_or("");
  }
  if (region.empty()) region = profile.region;
  if (region.empty()) return "https://sts.amazonaws.com";
  if (region.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string::npos) {
    refuse("the region has characters that no region has");
  }
  return fmt::format("https://sts.{}.amazonaws.com{}", region, region.starts_with("cn-") ? ".cn" : "");
}

}  // namespace millrace
