#include "millrace/formats/storage/remote/google_credentials_file.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "millrace/formats/json/parse_json.h"

namespace millrace {
namespace {

using Json = nlohmann::json;
using Type = GoogleCredentialsFile::Type;

constexpr const char* kTokenUri = "https://oauth2.googleapis.com/token";
constexpr const char* kExchangeUri = "https://sts.googleapis.com/v1/token";
// Of tokens of impersonated accounts, in seconds.
constexpr int64_t kShortestLifetime = 600;
constexpr int64_t kLongestLifetime = 43'200;

// Of an object in a file, which a message never shows.
class Fields {
 public:
  // `who`: in messages.
  Fields(const Json& object, const std::string& path, std::string who = "it")
      : object_(object), path_(path), who_(std::move(who)) {}

  const Json* find_value(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  std::optional<std::string> find(const char* name) const {
    const Json* const value = find_value(name);
    return value == nullptr ? std::nullopt : std::optional(text(*value, name));
  }
  std::string require(const char* name) const {
    std::optional<std::string> value = find(name);
    if (!value || value->empty()) lacks(name);
    return *std::move(value);
  }
  std::optional<Fields> find_object(const char* name) const {
    const Json* const value = find_value(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_object()) refuse(fmt::format("its field '{}' is no object of JSON", name));
    return Fields(*value, path_, fmt::format("its '{}'", name));
  }
  Fields require_object(const char* name) const {
    const std::optional<Fields> object = find_object(name);
    if (!object) lacks(name);
    return *object;
  }
  // A field of others in this one.
  std::string text(const Json& value, const char* name) const {
    if (!value.is_string()) refuse(fmt::format("its field '{}' is no text", name));
    return value.get<std::string>();
  }
  [[noreturn]] void lacks(const char* name) const { refuse(fmt::format("{} has no '{}'", who_, name)); }
  [[noreturn]] void refuse(const std::string& why) const {
    throw ErrorException(
        {.code = ErrorCode::kParse, .message = "cannot read the Google credentials: " + why, .shard = path_});
  }

 private:
  const Json& object_;
  const std::string& path_;
  const std::string who_;
};

// Where a URL leads, without a port; empty where it is none of http or https that a request may go to.
std::string_view host_of(std::string_view url) {
  if (std::ranges::any_of(url, [](unsigned char c) { return c <= ' ' || c >= 0x7f; })) return {};
  if (!url.starts_with("http://") && !url.starts_with("https://")) return {};
  url.remove_prefix(url.find("://") + 3);
  const std::string_view host = url.substr(0, url.find_first_of("/?#"));
  if (host.find('@') != std::string_view::npos) return {};
  return host.starts_with("[::1]") ? host.substr(0, 5) : host.substr(0, host.find(':'));
}

// Whether secrets may go there: signed claims, tokens.
bool is_safe(std::string_view url) {
  const std::string_view host = host_of(url);
  if (host.empty()) return false;
  return url.starts_with("https://") || host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

// A field of HTTP.
bool is_header(std::string_view name, std::string_view value) {
  const bool is_name = std::ranges::all_of(name, [](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '-' || c == '_';
  });
  return is_name && !name.empty() && std::ranges::all_of(value, [](char c) { return ' ' <= c && c <= '~'; });
}

SubjectTokenSource subject_of(const Fields& fields) {
  // With `environment_id` there may be a `url`, too, which has no subject token.
  for (const char* other : {"environment_id", "executable", "certificate"}) {
    if (fields.find_value(other) == nullptr) continue;
    fields.refuse(
        fmt::format("its 'credential_source' has '{}': subject tokens are taken only from a 'file' or a 'url'", other));
  }
  SubjectTokenSource source{.file = fields.find("file").value_or("")};
  if (source.file.empty()) {
    source.url = fields.require("url");
    const bool is_of_metadata = source.url.starts_with("http://") && host_of(source.url) == "169.254.169.254";
    if (!is_safe(source.url) && !is_of_metadata) fields.refuse("its 'url' of subject tokens is no URL of https");
  }
  if (fields.find_object("headers")) {
    for (const auto& [name, value] : fields.find_value("headers")->items()) {
      source.headers.emplace_back(name, fields.text(value, "headers"));
    }
  }
  const auto is_wrong = [](const auto& header) { return !is_header(header.first, header.second); };
  if (std::ranges::any_of(source.headers, is_wrong)) fields.refuse("its 'headers' are no fields of HTTP");
  if (const auto format = fields.find_object("format")) {
    const std::string type = format->find("type").value_or("text");
    if (type != "text" && type != "json") fields.refuse("its subject tokens are neither 'text' nor 'json'");
    if (type == "json") source.field = format->require("subject_token_field_name");
  }
  return source;
}

GoogleImpersonation impersonation_of(const Fields& fields) {
  constexpr const char* kField = "service_account_impersonation_url";
  constexpr std::string_view kEnd = ":generateAccessToken";
  GoogleImpersonation impersonation{.url = fields.require(kField)};
  const std::string& url = impersonation.url;
  if (!is_safe(url)) fields.refuse(fmt::format("its '{}' is no URL of https", kField));
  const size_t begin = url.rfind('/') + 1;
  if (!url.ends_with(kEnd) || begin + kEnd.size() >= url.size()) {
    fields.refuse(fmt::format("its '{}' names no account", kField));
  }
  impersonation.account = url.substr(begin, url.size() - kEnd.size() - begin);
  if (const Json* const delegates = fields.find_value("delegates"); delegates != nullptr) {
    if (!delegates->is_array()) fields.refuse("its field 'delegates' is no list");
    for (const Json& delegate : *delegates) impersonation.delegates.push_back(fields.text(delegate, "delegates"));
  }
  if (const auto more = fields.find_object("service_account_impersonation")) {
    if (const Json* const life = more->find_value("token_lifetime_seconds"); life != nullptr) {
      const bool is_count = life->is_number_integer() && *life >= kShortestLifetime && *life <= kLongestLifetime;
      if (!is_count) {
        fields.refuse(fmt::format("its 'token_lifetime_seconds' is no number from {} to {}", kShortestLifetime,
                                  kLongestLifetime));
      }
      impersonation.token_lifetime = std::chrono::seconds(life->get<int64_t>());
    }
  }
  return impersonation;
}

GoogleCredentialsFile credentials_of(const Fields& fields) {
  const std::string type = fields.require("type");
  GoogleCredentialsFile file;
  if (type == "impersonated_service_account") {
    file = credentials_of(fields.require_object("source_credentials"));
    if (file.impersonation) fields.refuse("its 'source_credentials' impersonate an account themselves");
    file.impersonation = impersonation_of(fields);
  } else if (type == "external_account") {
    file.type = Type::kExternalAccount;
    file.audience = fields.require("audience");
    file.subject_token_type = fields.require("subject_token_type");
    file.subject = subject_of(fields.require_object("credential_source"));
    file.client_id = fields.find("client_id").value_or("");
    file.client_secret = fields.find("client_secret").value_or("");
    file.user_project = fields.find("workforce_pool_user_project").value_or("");
    file.token_uri = fields.find("token_url").value_or(kExchangeUri);
    if (!is_safe(file.token_uri)) fields.refuse("its 'token_url' is no URL of https");
    if (fields.find("service_account_impersonation_url")) file.impersonation = impersonation_of(fields);
  } else if (type == "service_account" || type == "authorized_user") {
    if (type == "service_account") {
      file.client_email = fields.require("client_email");
      file.private_key = fields.require("private_key");
      file.private_key_id = fields.find("private_key_id").value_or("");
    } else {
      file.type = Type::kAuthorizedUser;
      file.client_id = fields.require("client_id");
      file.client_secret = fields.require("client_secret");
      file.refresh_token = fields.require("refresh_token");
    }
    file.token_uri = fields.find("token_uri").value_or(kTokenUri);
    if (!is_safe(file.token_uri)) fields.refuse("its 'token_uri' is no URL of https");
  } else {
    fields.refuse(
        fmt::format("they are of the type {}, of which nothing is known here: only of 'service_account', "
                    "'authorized_user', 'impersonated_service_account' and 'external_account'",
                    shown_json(*fields.find_value("type"))));
  }
  file.quota_project = fields.find("quota_project_id").value_or("");
  if (std::ranges::any_of(file.quota_project, [](unsigned char c) { return c <= ' ' || c >= 0x7f; })) {
    fields.refuse("its 'quota_project_id' is no name of a project");
  }
  return file;
}

}  // namespace

GoogleCredentialsFile parse_google_credentials(std::string_view text, const std::string& path) {
  Json document;
  try {
    document = parse_json<Json>(text, path);
  } catch (const ErrorException& exception) {
    Fields(document, path).refuse(exception.error().message);
  }
  const Fields fields(document, path);
  if (!document.is_object()) fields.refuse("it is no object of JSON");
  return credentials_of(fields);
}

}  // namespace millrace
