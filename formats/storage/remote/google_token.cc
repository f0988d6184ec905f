#include "millrace/formats/storage/remote/google_token.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/storage/remote/json_web_token.h"
#include "millrace/formats/storage/remote/object_url.h"

namespace millrace {
namespace {

using Json = nlohmann::json;
using Type = GoogleCredentialsFile::Type;

constexpr std::string_view kTokenUri = "https://oauth2.googleapis.com/token";
constexpr std::chrono::seconds kLifeOfClaims{3600};  // the longest that is allowed
constexpr std::chrono::seconds kLongestLife = std::chrono::hours(24);
constexpr size_t kLongestToken = 16 << 10;

// Fields of a file, which a message never shows.
class Fields {
 public:
  Fields(const Json& document, const std::string& path) : document_(document), path_(path) {}

  std::optional<std::string> find(const char* name) const {
    const auto found = document_.find(name);
    if (found == document_.end() || found->is_null()) return std::nullopt;
    if (!found->is_string()) refuse(fmt::format("its field '{}' is no text", name));
    return found->get<std::string>();
  }
  std::string require(const char* name) const {
    std::optional<std::string> value = find(name);
    if (!value || value->empty()) refuse(fmt::format("it has no '{}'", name));
    return *std::move(value);
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw ErrorException(
        {.code = ErrorCode::kParse, .message = "cannot read the Google credentials: " + why, .shard = path_});
  }

 private:
  const Json& document_;
  const std::string& path_;
};

// The signed claims or the refresh token go there.
bool is_safe(std::string_view uri) {
  if (std::ranges::any_of(uri, [](unsigned char c) { return c <= ' ' || c >= 0x7f; })) return false;
  const bool is_plain = uri.starts_with("http://");
  if (!is_plain && !uri.starts_with("https://")) return false;
  uri.remove_prefix(uri.find("://") + 3);
  const std::string_view host = uri.substr(0, uri.find_first_of("/?#"));
  if (host.empty() || host.find('@') != std::string_view::npos) return false;
  const std::string_view name = host.substr(0, host.find(':'));
  return !is_plain || name == "localhost" || name == "127.0.0.1" || host.starts_with("[::1]");
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
  const std::string type = fields.require("type");
  GoogleCredentialsFile file;
  if (type == "service_account") {
    file.client_email = fields.require("client_email");
    file.private_key = fields.require("private_key");
    file.private_key_id = fields.find("private_key_id").value_or("");
  } else if (type == "authorized_user") {
    file.type = Type::kAuthorizedUser;
    file.client_id = fields.require("client_id");
    file.client_secret = fields.require("client_secret");
    file.refresh_token = fields.require("refresh_token");
  } else {
    fields.refuse(
        fmt::format("they are of the type {}, of which nothing is known here: only of 'service_account' and "
                    "'authorized_user'",
                    shown_json(document["type"])));
  }
  file.token_uri = fields.find("token_uri").value_or(std::string(kTokenUri));
  if (!is_safe(file.token_uri)) fields.refuse("its 'token_uri' is no URL of https");
  file.quota_project = fields.find("quota_project_id").value_or("");
  if (std::ranges::any_of(file.quota_project, [](unsigned char c) { return c <= ' ' || c >= 0x7f; })) {
    fields.refuse("its 'quota_project_id' is no name of a project");
  }
  return file;
}

std::string google_token_form(const GoogleCredentialsFile& file, const std::string& scope,
                              std::chrono::system_clock::time_point now) {
  if (file.type == Type::kAuthorizedUser) {
    return fmt::format("grant_type=refresh_token&client_id={}&client_secret={}&refresh_token={}",
                       percent_encoded(file.client_id), percent_encoded(file.client_secret),
                       percent_encoded(file.refresh_token));
  }
  const int64_t issued_at = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
  const nlohmann::ordered_json claims{{"iss", file.client_email},
                                      {"scope", scope},
                                      {"aud", file.token_uri},
                                      {"iat", issued_at},
                                      {"exp", issued_at + kLifeOfClaims.count()}};
  return fmt::format("grant_type={}&assertion={}", percent_encoded("urn:ietf:params:oauth:grant-type:jwt-bearer"),
                     sign_json_web_token(claims.dump(), file.private_key_id, file.private_key));
}

GoogleTokenAnswer parse_google_token(std::string_view body) {
  const auto refuse = [](const char* why) {
    throw ErrorException(ErrorCode::kParse, fmt::format("the answer with the access token {}", why));
  };
  Json document;
  try {
    document = parse_json<Json>(body, "");
  } catch (const ErrorException&) {
    refuse("is no JSON");
  }
  if (!document.is_object()) refuse("is no object of JSON");
  GoogleTokenAnswer answer;
  const auto token = document.find("access_token");
  if (token == document.end() || !token->is_string()) refuse("has no 'access_token'");
  answer.access_token = token->get<std::string>();
  // It goes into a field of a header.
  const bool is_printable =
      std::ranges::all_of(answer.access_token, [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (answer.access_token.empty() || answer.access_token.size() > kLongestToken || !is_printable) {
    refuse("has an 'access_token' that is none");
  }
  const auto life = document.find("expires_in");
  if (life == document.end() || !life->is_number_integer() || life->get<int64_t>() <= 0) {
    refuse("does not say when the token ends");
  }
  answer.expires_in = std::min(std::chrono::seconds(std::min<uint64_t>(life->get<uint64_t>(), 1U << 30)), kLongestLife);
  return answer;
}

}  // namespace millrace
