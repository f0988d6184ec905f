#include "tests/fuzz/aws_config_fuzz.h"

#include <algorithm>
#include <optional>
#include <string>

#include "millrace/formats/storage/remote/aws_config.h"
#include "millrace/formats/storage/remote/aws_credential_answer.h"
#include "millrace/formats/storage/remote/utc_time.h"
#include "tests/fuzz/fuzz_error.h"

namespace millrace::test {
namespace {

template <typename Read>
auto read_or_refuse(Read read) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const ErrorException& exception) {
    require_refusal(exception, {ErrorCode::kParse});
    require(exception.error().message.find('\n') == std::string::npos);
    return std::nullopt;
  }
}

// Properties with those in them, whose names have a dot after the name of one without a value; others may have dots
// too.
std::string written(const AwsSections::Properties& properties) {
  std::string text;
  for (const auto& [name, value] : properties) {
    const size_t end = value.find('\n');
    text += name + " = " + value.substr(0, end) + "\n";
    for (size_t begin = end; begin != std::string::npos;) {
      const size_t next = value.find('\n', begin + 1);
      text += "  " + value.substr(begin + 1, next == std::string::npos ? next : next - begin - 1) + "\n";
      begin = next;
    }
  }
  return text;
}

// Values that can be written so: a comment begins only after a space, and not in what was continued.
bool is_plain(const AwsSections& sections) {
  for (const auto* all : {&sections.profiles, &sections.services}) {
    for (const auto& [name, properties] : *all) {
      if (name.find_first_of("]\"'\n") != std::string::npos) return false;
      for (const auto& [key, value] : properties) {
        if (value.find_first_of("#;") != std::string::npos) return false;
        if (value.starts_with('\n')) return false;
      }
    }
  }
  return true;
}

void check_sections(std::string_view bytes, AwsFile which) {
  const std::optional<AwsSections> sections = read_or_refuse([&] { return parse_aws_config(bytes, which); });
  if (!sections || !is_plain(*sections)) return;
  std::string text;
  const bool is_config = which == AwsFile::kConfig;
  for (const auto& [name, properties] : sections->profiles) {
    text += (is_config ? "[profile \"" : "[\"") + name + "\"]\n" + written(properties);
  }
  for (const auto& [name, properties] : sections->services) {
    text += "[services \"" + name + "\"]\n" + written(properties);
  }
  const AwsSections again = parse_aws_config(text, which);
  require(again.profiles == sections->profiles && again.services == sections->services);
}

void check_key(std::string_view key) {
  require(std::ranges::all_of(key, [](char c) { return '!' <= c && c <= '~'; }));
}

}  // namespace

void fuzz_aws_config(std::string_view bytes) {
  check_sections(bytes, AwsFile::kConfig);
  check_sections(bytes, AwsFile::kCredentials);
}

void fuzz_aws_credential_answer(std::string_view bytes) {
  for (const auto read : {credentials_of_sts, credentials_of_metadata, credentials_of_process}) {
    const std::optional<AwsCredentialAnswer> answer = read_or_refuse([&] { return read(bytes); });
    if (!answer) continue;
    require(!answer->credentials.access_key_id.empty() && !answer->credentials.secret_access_key.empty());
    check_key(answer->credentials.access_key_id);
    check_key(answer->credentials.secret_access_key);
    check_key(answer->credentials.session_token);
  }
  const std::string refusal = refusal_of(bytes, "secret-of-20-letters");
  require(refusal.size() <= 400 && refusal.find("secret-of-20") == std::string::npos);
  if (const auto time = parse_utc_time(bytes)) {
    const auto day = std::chrono::floor<std::chrono::days>(*time);
    const std::chrono::year_month_day date(day);
    require(date.year() >= std::chrono::year(1969) && date.year() <= std::chrono::year(2201));
  }
}

}  // namespace millrace::test
