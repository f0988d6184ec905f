#include "millrace/formats/storage/remote/aws_credential_answer.h"

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/utc_time.h"

namespace millrace {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& what) { throw ErrorException(ErrorCode::kParse, what); }

void check_size(std::string_view answer) {
  if (answer.size() > kMostAwsCredentialAnswer) {
    refuse(fmt::format("the answer has more than {} bytes", kMostAwsCredentialAnswer));
  }
}

json object_of(std::string_view text) {
  check_size(text);
  json answer = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) refuse("the answer is no JSON object");
  return answer;
}

// Empty where it is missing or null.
std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return {};
  if (!found->is_string()) refuse(fmt::format("{} of the answer is no text", name));
  return found->get<std::string>();
}

AwsCredentialAnswer checked(AwsCredentials credentials, const std::string& expiration) {
  AwsCredentialAnswer answer{.credentials = std::move(credentials)};
  check_aws_key("AccessKeyId", answer.credentials.access_key_id);
  check_aws_key("SecretAccessKey", answer.credentials.secret_access_key);
  if (!answer.credentials.session_token.empty()) check_aws_key("the session token", answer.credentials.session_token);
  if (!expiration.empty()) {
    answer.ends = parse_utc_time(expiration);
    if (!answer.ends) refuse("Expiration of the answer is no time in RFC 3339");
  }
  return answer;
}

AwsCredentialAnswer credentials_of(const json& object, const char* token) {
  return checked({.access_key_id = text_of(object, "AccessKeyId"),
                  .secret_access_key = text_of(object, "SecretAccessKey"),
                  .session_token = text_of(object, token)},
                 text_of(object, "Expiration"));
}

// A word that a program gives a kind of error.
bool is_code(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '.' || c == '_';
  });
}

bool has_part_of(std::string_view text, std::string_view secret) {
  constexpr size_t kPart = 12;
  if (secret.empty()) return false;
  if (secret.size() <= kPart) return text.find(secret) != std::string_view::npos;
  for (size_t i = 0; i + kPart <= text.size(); ++i) {
    if (secret.find(text.substr(i, kPart)) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

AwsCredentialAnswer credentials_of_sts(std::string_view xml) {
  check_size(xml);
  pugi::xml_document document;
  const pugi::xml_parse_result result = document.load_buffer(xml.data(), xml.size());
  if (!result) refuse(fmt::format("the answer is no XML: {}", result.description()));
  const pugi::xml_node found =
      document.child("AssumeRoleWithWebIdentityResponse").child("AssumeRoleWithWebIdentityResult").child("Credentials");
  if (!found) refuse("the answer has no AssumeRoleWithWebIdentityResponse with Credentials");
  return checked({.access_key_id = found.child_value("AccessKeyId"),
                  .secret_access_key = found.child_value("SecretAccessKey"),
                  .session_token = found.child_value("SessionToken")},
                 found.child_value("Expiration"));
}

AwsCredentialAnswer credentials_of_metadata(std::string_view text) {
  const json object = object_of(text);
  if (const std::string code = text_of(object, "Code"); !code.empty() && code != "Success") {
    refuse(is_code(code) ? fmt::format("the answer has the code {}", code) : "the answer has the code of an error");
  }
  return credentials_of(object, "Token");
}

AwsCredentialAnswer credentials_of_process(std::string_view text) {
  const json object = object_of(text);
  const auto version = object.find("Version");
  if (version == object.end() || !version->is_number_integer() || *version != 1) {
    refuse("Version of the answer is not 1");
  }
  return credentials_of(object, "SessionToken");
}

std::string refusal_of(std::string_view answer, std::string_view secret) {
  if (answer.size() > kMostAwsCredentialAnswer) return {};
  std::string code;
  std::string message;
  pugi::xml_document document;
  if (document.load_buffer(answer.data(), answer.size())) {
    const pugi::xml_node error = document.child("ErrorResponse").child("Error");
    code = error.child_value("Code");
    message = error.child_value("Message");
  } else if (const json object = json::parse(answer, nullptr, false); object.is_object()) {
    for (const auto& [code_name, message_name] : {std::pair("code", "message"), std::pair("Code", "Message")}) {
      const auto has_text = [&](const char* name) { return object.contains(name) && object[name].is_string(); };
      if (code.empty() && has_text(code_name)) code = object[code_name].get<std::string>();
      if (message.empty() && has_text(message_name)) message = object[message_name].get<std::string>();
    }
  }
  if (!is_code(code) || has_part_of(code, secret)) return {};
  const bool is_one_line = std::ranges::all_of(message, [](char c) { return ' ' <= c && c <= '~'; });
  const bool is_shown = !message.empty() && message.size() <= 300 && is_one_line && !has_part_of(message, secret);
  return is_shown ? fmt::format("{}: {}", code, message) : code;
}

void check_aws_key(std::string_view what, std::string_view key) {
  if (key.empty()) refuse(fmt::format("{} is missing", what));
  if (!std::ranges::all_of(key, [](char c) { return '!' <= c && c <= '~'; })) {
    refuse(fmt::format("{} has characters that no key has, such as a space", what));
  }
}

}  // namespace millrace
