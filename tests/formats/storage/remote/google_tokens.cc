#include "tests/formats/storage/remote/google_tokens.h"

#include <algorithm>
#include <charconv>
#include <memory>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "millrace/formats/base64.h"

namespace millrace::test {
namespace {

using Answer = GoogleAnswer;
using Json = nlohmann::json;
using std::chrono::seconds;
using std::chrono::system_clock;

constexpr const char* kScopeOfAll = "https://www.googleapis.com/auth/cloud-platform";

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

std::string from_base64url(std::string text) {
  std::ranges::replace(text, '-', '+');
  std::ranges::replace(text, '_', '/');
  while (text.size() % 4 != 0) text += '=';
  return decode_base64(text).value_or("");
}

bool verifies(const std::string& text, const std::string& signature, const std::string& public_key) {
  const std::unique_ptr<BIO, Free> bio(BIO_new_mem_buf(public_key.data(), static_cast<int>(public_key.size())));
  const std::unique_ptr<EVP_PKEY, Free> key(PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr));
  const std::unique_ptr<EVP_MD_CTX, Free> context(EVP_MD_CTX_new());
  if (EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1) return false;
  const auto bytes = [](const std::string& of) { return reinterpret_cast<const unsigned char*>(of.data()); };
  return EVP_DigestVerify(context.get(), bytes(signature), signature.size(), bytes(text), text.size()) == 1;
}

Answer oauth_error(const std::string& error, const std::string& description) {
  return {.status = 400, .body = Json{{"error", error}, {"error_description", description}}.dump()};
}

std::string header_of(const GoogleRequest& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

bool is_of_store(const std::string& scope) {
  const std::string known = "https://www.googleapis.com/auth/devstorage.";
  return scope == known + "read_write" || scope == known + "read_only";
}

}  // namespace

std::string percent_decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    if (text[i] == '%' && i + 2 < text.size()) {
      std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16);
      decoded += static_cast<char>(byte);
      i += 2;
    } else {
      decoded += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

std::map<std::string, std::string> parse_form(std::string_view text) {
  std::map<std::string, std::string> fields;
  while (!text.empty()) {
    const std::string_view field = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(field.size() + 1, text.size()));
    const size_t equals = std::min(field.find('='), field.size());
    fields[percent_decode(field.substr(0, equals), true)] =
        percent_decode(field.substr(std::min(equals + 1, field.size())), true);
  }
  return fields;
}

std::optional<Answer> GoogleTokens::answer(const GoogleRequest& request, const std::string& endpoint) {
  const std::string& target = request.target;
  if (target == "/token") return of_endpoint(request, endpoint);
  if (target == "/subject" || target.starts_with("/subject?"))
    return subject(request, target.starts_with("/subject?json"));
  if (target == "/computeMetadata/v1/instance/service-accounts/default/token") return of_metadata(request);
  if (target.starts_with("/v1/projects/-/serviceAccounts/")) return impersonated(request);
  return std::nullopt;
}

bool GoogleTokens::is_valid(const std::string& authorization) const {
  const Token* const token = find(authorization);
  return token != nullptr && (token->scope.empty() || is_of_store(token->scope));
}

const GoogleTokens::Token* GoogleTokens::find(const std::string& authorization) const {
  const std::string start = "Bearer ";
  if (!authorization.starts_with(start)) return nullptr;
  const auto found = tokens_.find(authorization.substr(start.size()));
  return found != tokens_.end() && options_.now() < found->second.ends ? &found->second : nullptr;
}

std::string GoogleTokens::issue(const std::string& scope) {
  std::string token = fmt::format("{}-{}", options_.token_mark, ++num_tokens_);
  tokens_[token] = {.ends = options_.now() + options_.token_life, .scope = scope};
  return token;
}

Answer GoogleTokens::issued(const std::string& scope) {
  return {
      .body =
          Json{{"access_token", issue(scope)}, {"expires_in", options_.token_life.count()}, {"token_type", "Bearer"}}
              .dump()};
}

Answer GoogleTokens::of_endpoint(const GoogleRequest& request, const std::string& endpoint) {
  auto form = parse_form(request.body);
  if (request.method != "POST" || header_of(request, "content-type") != "application/x-www-form-urlencoded") {
    return oauth_error("invalid_request", "no form was posted");
  }
  const std::string types = "urn:ietf:params:oauth:grant-type:";
  if (form["grant_type"] == types + "token-exchange") return of_exchange(form);
  if (form["grant_type"] == "refresh_token") {
    if (form["client_id"] != options_.client_id || form["client_secret"] != options_.client_secret) {
      return oauth_error("invalid_client", "The OAuth client was not found.");
    }
    if (form["refresh_token"] != options_.refresh_token) {
      return oauth_error("invalid_grant", "Token has been expired or revoked.");
    }
    return issued("");
  }
  if (form["grant_type"] != types + "jwt-bearer") return oauth_error("unsupported_grant_type", "Invalid grant_type");
  std::string scope;
  const std::string why = why_refused(form["assertion"], endpoint, scope);
  return why.empty() ? issued(scope) : oauth_error("invalid_grant", why);
}

// RFC 8693, 2.1.
Answer GoogleTokens::of_exchange(std::map<std::string, std::string> form) {
  const std::string types = "urn:ietf:params:oauth:token-type:";
  if (form["audience"] != options_.audience) return oauth_error("invalid_target", "The target service is another.");
  if (form["requested_token_type"] != types + "access_token" || form["subject_token_type"] != types + "jwt") {
    return oauth_error("invalid_request", "Invalid token type");
  }
  if (!is_of_store(form["scope"]) && form["scope"] != kScopeOfAll) return oauth_error("invalid_scope", "Invalid scope");
  if (form["subject_token"] != options_.subject_token) {
    return oauth_error("invalid_grant", "The given credential is rejected by the attribute condition.");
  }
  return issued(form["scope"]);
}

std::string GoogleTokens::why_refused(const std::string& assertion, const std::string& endpoint,
                                      std::string& scope) const {
  const size_t first = assertion.find('.');
  const size_t last = assertion.rfind('.');
  if (first == std::string::npos || first == last) return "the assertion has not three parts";
  if (!verifies(assertion.substr(0, last), from_base64url(assertion.substr(last + 1)), options_.public_key)) {
    return "Invalid JWT Signature.";
  }
  const Json header = Json::parse(from_base64url(assertion.substr(0, first)));
  const Json claims = Json::parse(from_base64url(assertion.substr(first + 1, last - first - 1)));
  if (header.at("alg") != "RS256" || header.at("typ") != "JWT") return "the header is another";
  if (claims.at("iss") != options_.account) return "Invalid issuer";
  if (claims.at("aud") != endpoint + "/token") return "Invalid audience";
  scope = claims.at("scope").get<std::string>();
  if (!is_of_store(scope) && scope != kScopeOfAll) return "Invalid scope";
  const auto now = std::chrono::floor<seconds>(options_.now().time_since_epoch()).count();
  const auto issued_at = claims.at("iat").get<int64_t>();
  const auto ends_at = claims.at("exp").get<int64_t>();
  const bool is_in_time = issued_at <= now && now < ends_at && ends_at - issued_at <= 3600;
  return is_in_time ? "" : "Token must be a short-lived token (60 minutes) and in a reasonable timeframe.";
}

Answer GoogleTokens::impersonated(const GoogleRequest& request) {
  const std::string name = GoogleServerOptions::kImpersonated;
  const Token* const token = find(header_of(request, "authorization"));
  if (token == nullptr || (!token->scope.empty() && token->scope != kScopeOfAll)) {
    return google_api_error(401, "authError", "Request had invalid authentication credentials.");
  }
  if (request.target != "/v1/projects/-/serviceAccounts/" + name + ":generateAccessToken") {
    return google_api_error(403, "forbidden", "Permission 'iam.serviceAccounts.getAccessToken' denied");
  }
  const Json body = Json::parse(request.body);
  const auto scope = body.at("scope").at(0).get<std::string>();
  const bool is_good = header_of(request, "content-type") == "application/json" && is_of_store(scope) &&
                       body.at("delegates").is_array() &&
                       body.at("lifetime") == fmt::format("{}s", options_.token_life.count());
  if (!is_good) return google_api_error(400, "badRequest", "Invalid argument");
  const time_t ends = system_clock::to_time_t(options_.now() + options_.token_life);
  return {.body = Json{{"accessToken", issue(scope)},
                       {"expireTime", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(ends))}}
                      .dump()};
}

Answer GoogleTokens::of_metadata(const GoogleRequest& request) {
  if (header_of(request, "metadata-flavor") != "Google") return {.status = 403, .body = "Forbidden"};
  Answer answer = options_.has_account ? issued("") : Answer{.status = 404, .body = "Not Found"};
  answer.headers["Metadata-Flavor"] = "Google";
  return answer;
}

Answer GoogleTokens::subject(const GoogleRequest& request, bool as_json) const {
  if (request.method != "GET" || header_of(request, "metadata") != "true") return {.status = 400, .body = "no field"};
  return {.body = as_json ? Json{{"value", options_.subject_token}}.dump() : options_.subject_token + "\n"};
}

}  // namespace millrace::test
