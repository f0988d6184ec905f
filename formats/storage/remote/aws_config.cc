#include "millrace/formats/storage/remote/aws_config.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/http_message.h"
#include "millrace/formats/storage/remote/small_file.h"
#include "millrace/formats/text/lower_case.h"

namespace millrace {
namespace {

constexpr std::string_view kSpaces = " \t\r";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

// Of profiles and properties.
bool is_name(std::string_view text) {
  constexpr std::string_view kOthers = "_-/.%@:+";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
           kOthers.find(c) != std::string_view::npos;
  });
}

bool is_space(char c) { return kSpaces.find(c) != std::string_view::npos; }
bool begins_comment(char c) { return c == '#' || c == ';'; }

// Without the comment that begins after a space.
std::string_view without_comment(std::string_view line) {
  for (size_t i = 1; i < line.size(); ++i) {
    if (begins_comment(line[i]) && is_space(line[i - 1])) return line.substr(0, i);
  }
  return line;
}

class Parser {
 public:
  Parser(std::string_view text, AwsFile which) : text_(text), which_(which) {}

  AwsSections parse() {
    while (!text_.empty()) {
      const size_t end = std::min(text_.find('\n'), text_.size());
      const std::string_view line = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      ++line_number_;
      const std::string_view content = trimmed(line);
      if (content.empty() || begins_comment(content.front())) continue;
      const bool is_indented = is_space(line.front());
      if (content.front() == '[' && !(is_indented && property_ != nullptr)) {
        take_section(content);
      } else if (is_indented) {
        go_on(content);
      } else {
        take_property(trimmed(without_comment(content)));
      }
    }
    if (has_prefixed_default_) sections_.profiles["default"] = std::move(prefixed_default_);
    return std::move(sections_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw ErrorException(ErrorCode::kParse, fmt::format("line {}: {}", line_number_, what));
  }

  void take_section(std::string_view line) {
    const size_t end = line.find(']');
    const std::string_view after = end == std::string_view::npos ? "" : trimmed(line.substr(end + 1));
    if (end == std::string_view::npos || (!after.empty() && !begins_comment(after.front()))) {
      refuse("a section ends in ']'");
    }
    is_in_section_ = true;
    property_ = nullptr;
    section_ = section(trimmed(line.substr(1, end - 1)));
  }

  // Null: of no use here.
  AwsSections::Properties* section(std::string_view title) {
    if (which_ == AwsFile::kCredentials) return of(sections_.profiles, title);
    if (title == "default") return of(sections_.profiles, title);
    const size_t space = title.find_first_of(kSpaces);
    if (space == std::string_view::npos) return nullptr;
    const std::string_view kind = title.substr(0, space);
    const std::string_view name = trimmed(title.substr(space));
    if (kind == "services") return of(sections_.services, name);
    if (kind != "profile") return nullptr;
    if (name != "default") return of(sections_.profiles, name);
    has_prefixed_default_ = true;
    return &prefixed_default_;
  }

  // Names that the AWS CLI writes in quotes may have spaces.
  static AwsSections::Properties* of(std::map<std::string, AwsSections::Properties, std::less<>>& all,
                                     std::string_view name) {
    const bool is_quoted = name.size() > 2 && (name.front() == '"' || name.front() == '\'') && name.back() == name[0];
    if (is_quoted) name = name.substr(1, name.size() - 2);
    return is_quoted || is_name(name) ? &all[std::string(name)] : nullptr;
  }

  // Name and value of a line.
  std::pair<std::string, std::string_view> property(std::string_view line) const {
    const size_t sign = line.find('=');
    if (sign == std::string_view::npos) refuse("a property has the form NAME = VALUE");
    const std::string_view name = trimmed(line.substr(0, sign));
    if (name.empty()) refuse("a property needs a name before its '='");
    return {lower_case(name), trimmed(line.substr(sign + 1))};
  }

  void take_property(std::string_view line) {
    if (!is_in_section_) refuse("a file begins with a section, such as [default]");
    const auto [name, value] = property(line);
    property_name_ = name;
    property_ = put(name, value);
    is_parent_ = value.empty();
  }

  void go_on(std::string_view line) {
    if (!is_in_section_) refuse("a file begins with a section, such as [default]");
    if (property_ == nullptr) refuse("a line that begins with a space goes on with a property, and there is none");
    if (!is_parent_) {
      property_->append("\n").append(line);
      return;
    }
    const auto [name, value] = property(line);
    if (is_name(name)) put(property_name_ + "." + name, value);
  }

  std::string* put(const std::string& name, std::string_view value) {
    AwsSections::Properties& properties = section_ == nullptr ? unused_ : *section_;
    std::string& place = is_name(name) ? properties[name] : unused_[""];
    place = value;
    return &place;
  }

  std::string_view text_;
  const AwsFile which_;
  size_t line_number_ = 0;
  AwsSections sections_;
  AwsSections::Properties prefixed_default_;
  bool has_prefixed_default_ = false;
  AwsSections::Properties unused_;
  bool is_in_section_ = false;
  AwsSections::Properties* section_ = nullptr;
  std::string property_name_;
  std::string* property_ = nullptr;  // that a line may go on with
  bool is_parent_ = false;           // of the lines that do
};

struct Place {
  std::string path = {};   // empty: there is none
  std::string shown = {};  // as users know it
};

Place place_of(const Environment& environment, std::string_view variable, std::string_view in_home) {
  const std::optional<std::string> home = environment("HOME");
  if (std::optional<std::string> path = environment(variable)) {
    if (path->starts_with("~/") && home) return {.path = *home + path->substr(1), .shown = *path};
    return {.path = *path, .shown = *path};
  }
  const std::string shown = fmt::format("~/{}", in_home);
  return home ? Place{.path = fmt::format("{}/{}", *home, in_home), .shown = shown} : Place{.shown = shown};
}

AwsSections sections_of(const Place& place, AwsFile which) {
  if (place.path.empty()) return {};
  const std::optional<std::string> text = read_small_file(place.path, kMostAwsConfig);
  if (!text) return {};
  try {
    return parse_aws_config(*text, which);
  } catch (const ErrorException& exception) {
    throw ErrorException(exception.error().code,
                         fmt::format("cannot read {}: {}", place.path, exception.error().message));
  }
}

bool is_true(const std::string& text) { return lower_case(text) == "true"; }

}  // namespace

AwsSections parse_aws_config(std::string_view text, AwsFile which) { return Parser(text, which).parse(); }

AwsProfile load_aws_profile(const Environment& environment, std::string name) {
  const Place config_at = place_of(environment, "AWS_CONFIG_FILE", ".aws/config");
  const Place credentials_at = place_of(environment, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
  AwsProfile profile{.files = fmt::format("{} and {}", config_at.shown, credentials_at.shown)};
  std::string named_by;
  for (const char* variable : {"AWS_PROFILE", "AWS_DEFAULT_PROFILE"}) {
    if (!name.empty()) break;
    name = environment(variable).value_or("");
    if (!name.empty()) named_by = fmt::format(" (named by {})", variable);
  }
  const bool is_named = !name.empty();
  profile.name = is_named ? std::move(name) : "default";

  const AwsSections config = sections_of(config_at, AwsFile::kConfig);
  const AwsSections credentials = sections_of(credentials_at, AwsFile::kCredentials);
  const auto in_config = config.profiles.find(profile.name);
  const auto in_credentials = credentials.profiles.find(profile.name);
  profile.is_there = in_config != config.profiles.end() || in_credentials != credentials.profiles.end();
  if (!profile.is_there) {
    if (!is_named || profile.name == "default") return profile;
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("there is no profile '{}'{} in {}", profile.name, named_by, profile.files));
  }
  const AwsSections::Properties none;
  const AwsSections::Properties& later = in_config == config.profiles.end() ? none : in_config->second;
  const AwsSections::Properties& first = in_credentials == credentials.profiles.end() ? none : in_credentials->second;
  const auto found = [](const AwsSections::Properties& properties, std::string_view key) {
    const auto at = properties.find(key);
    return at == properties.end() ? std::string() : at->second;
  };
  const auto value = [&](std::string_view key) {
    std::string text = found(first, key);
    return text.empty() ? found(later, key) : text;
  };
  // Of one file all three: a token of another belongs to other keys.
  const bool are_in_first = first.contains("aws_access_key_id") || first.contains("aws_secret_access_key");
  const AwsSections::Properties& keys = are_in_first ? first : later;
  profile.keys_at = are_in_first ? credentials_at.shown : config_at.shown;
  profile.access_key_id = found(keys, "aws_access_key_id");
  profile.secret_access_key = found(keys, "aws_secret_access_key");
  profile.session_token = found(keys, "aws_session_token");
  profile.region = value("region");
  profile.credential_process = value("credential_process");
  profile.web_identity_token_file = value("web_identity_token_file");
  profile.role_arn = value("role_arn");
  profile.role_session_name = value("role_session_name");
  for (const char* other : {"source_profile", "credential_source", "sso_session", "sso_start_url", "login_session"}) {
    if (profile.unsupported.empty() && !value(other).empty()) profile.unsupported = other;
  }

  const std::optional<std::string> ignored = environment("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
  if (is_true(ignored.value_or(value("ignore_configured_endpoint_urls")))) return profile;
  profile.endpoint_url = value("endpoint_url");
  if (const auto services = config.services.find(value("services")); services != config.services.end()) {
    profile.s3_endpoint_url = found(services->second, "s3.endpoint_url");
    profile.sts_endpoint_url = found(services->second, "sts.endpoint_url");
  }
  return profile;
}

}  // namespace millrace
