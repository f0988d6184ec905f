#include "millrace/formats/storage/remote/google_token.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/storage/remote/json_web_token.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/utc_time.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

using Json = nlohmann::json;
using Type = GoogleCredentialsFile::Type;
using std::chrono::seconds;
using std::chrono::system_clock;

constexpr seconds kLifeOfClaims{3600};  // the longest that is allowed
constexpr seconds kLongestLife = std::chrono::hours(24);
constexpr size_t kLongestToken = 16 << 10;

[[noreturn]] void refuse(std::string_view what, std::string_view why) {
  throw ErrorException(ErrorCode::kParse, fmt::format("{} {}", what, why));
}

// An object of JSON that others have sent. `what`: in messages, which repeat nothing of it.
Json object_of(std::string_view text, std::string_view what) {
  Json document;
  try {
    document = parse_json<Json>(text, "");
  } catch (const ErrorException&) {
    refuse(what, "is no JSON");
  }
  if (!document.is_object()) refuse(what, "is no object of JSON");
  return document;
}

constexpr const char* kAnswer = "the answer with the access token";

std::string token_of(const Json& answer, const char* name) {
  const auto found = answer.find(name);
  if (found == answer.end() || !found->is_string()) refuse(kAnswer, fmt::format("has no '{}'", name));
  auto token = found->get<std::string>();
  // It goes into a field of a header.
  const bool is_printable = std::ranges::all_of(token, [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (token.empty() || token.size() > kLongestToken || !is_printable) {
    refuse(kAnswer, fmt::format("has an '{}' that is none", name));
  }
  return token;
}

// The fields of RFC 8693, 2.1, but the subject token.
std::string exchange_form(const GoogleCredentialsFile& file, const std::string& scope) {
  constexpr const char* kNames = "urn:ietf:params:oauth:";
  std::string form =
      fmt::format("grant_type={}&audience={}&scope={}&requested_token_type={}&subject_token_type={}",
                  percent_encoded(fmt::format("{}grant-type:token-exchange", kNames)), percent_encoded(file.audience),
                  percent_encoded(scope), percent_encoded(fmt::format("{}token-type:access_token", kNames)),
                  percent_encoded(file.subject_token_type));
  // Who shows no client of the pool says who pays.
  if (!file.user_project.empty() && file.client_id.empty()) {
    form += "&options=" + percent_encoded(Json{{"userProject", file.user_project}}.dump());
  }
  return form;
}

}  // namespace

std::string google_token_form(const GoogleCredentialsFile& file, const std::string& scope, system_clock::time_point now,
                              const std::string& subject_token) {
  if (file.type == Type::kExternalAccount) {
    return fmt::format("{}&subject_token={}", exchange_form(file, scope), percent_encoded(subject_token));
  }
  if (file.type == Type::kAuthorizedUser) {
    return fmt::format("grant_type=refresh_token&client_id={}&client_secret={}&refresh_token={}",
                       percent_encoded(file.client_id), percent_encoded(file.client_secret),
                       percent_encoded(file.refresh_token));
  }
  const int64_t issued_at = std::chrono::floor<seconds>(now.time_since_epoch()).count();
  const nlohmann::ordered_json claims{{"iss", file.client_email},
                                      {"scope", scope},
                                      {"aud", file.token_uri},
                                      {"iat", issued_at},
                                      {"exp", issued_at + kLifeOfClaims.count()}};
  return fmt::format("grant_type={}&assertion={}", percent_encoded("urn:ietf:params:oauth:grant-type:jwt-bearer"),
                     sign_json_web_token(claims.dump(), file.private_key_id, file.private_key));
}

std::string impersonation_body(const GoogleImpersonation& impersonation, const std::string& scope) {
  return Json{{"delegates", impersonation.delegates},
              {"scope", Json::array({scope})},
              {"lifetime", fmt::format("{}s", impersonation.token_lifetime.count())}}
      .dump();
}

GoogleTokenAnswer parse_google_token(std::string_view body) {
  const Json answer = object_of(body, kAnswer);
  GoogleTokenAnswer token{.access_token = token_of(answer, "access_token")};
  const auto life = answer.find("expires_in");
  if (life == answer.end() || !life->is_number_integer() || life->get<int64_t>() <= 0) {
    refuse(kAnswer, "does not say when the token ends");
  }
  token.expires_in = std::min(seconds(std::min<uint64_t>(life->get<uint64_t>(), 1U << 30)), kLongestLife);
  return token;
}

GoogleTokenAnswer parse_impersonated_token(std::string_view body, system_clock::time_point now) {
  const Json answer = object_of(body, kAnswer);
  GoogleTokenAnswer token{.access_token = token_of(answer, "accessToken")};
  const auto time = answer.find("expireTime");
  const auto ends = time != answer.end() && time->is_string() ? parse_utc_time(time->get<std::string>()) : std::nullopt;
  if (!ends) refuse(kAnswer, "does not say when the token ends");
  if (*ends <= now) refuse(kAnswer, "has a token that has ended, by this machine's clock");
  token.expires_in = std::min(std::chrono::ceil<seconds>(*ends - now), kLongestLife);
  return token;
}

std::string parse_subject_token(std::string_view text, const SubjectTokenSource& source) {
  constexpr const char* kBlanks = " \t\r\n";
  std::string token(text);
  if (!source.field.empty()) {
    const Json object = object_of(text, "what holds the subject token");
    const auto found = object.find(source.field);
    if (found == object.end() || !found->is_string()) {
      refuse("what holds the subject token", fmt::format("has no '{}'", excerpt(printable(source.field))));
    }
    token = found->get<std::string>();
  }
  const size_t begin = std::min(token.find_first_not_of(kBlanks), token.size());
  token = token.substr(begin, token.find_last_not_of(kBlanks) + 1 - begin);
  if (token.empty()) refuse("the subject token", "is empty");
  return token;
}

}  // namespace millrace
