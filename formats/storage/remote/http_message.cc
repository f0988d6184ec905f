#include "millrace/formats/storage/remote/http_message.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <strings.h>

namespace millrace {

std::string_view to_string(HttpMethod method) {
  switch (method) {
    case HttpMethod::kGet: return "GET";
    case HttpMethod::kHead: return "HEAD";
    case HttpMethod::kPut: return "PUT";
    case HttpMethod::kPost: return "POST";
    case HttpMethod::kDelete: return "DELETE";
  }
  return "GET";
}

const std::string* HttpHeaders::find(std::string_view name) const {
  const auto is_it = [&](const auto& field) {
    return field.first.size() == name.size() && ::strncasecmp(field.first.data(), name.data(), name.size()) == 0;
  };
  const auto found = std::ranges::find_if(fields_, is_it);
  return found == fields_.end() ? nullptr : &found->second;
}

void HttpHead::add_line(std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {
    *this = {};
    const size_t space = line.find(' ');
    if (space != std::string_view::npos) std::from_chars(line.data() + space + 1, line.data() + line.size(), status);
    return;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  std::string value(line.substr(colon + 1));
  value.erase(0, value.find_first_not_of(" \t"));
  std::ranges::replace_if(
      value, [](char c) { return c == '\r' || c == '\n' || c == '\0'; }, ' ');
  headers.add(std::string(line.substr(0, colon)), std::move(value));
}

bool is_busy_status(int status) { return status == 408 || status == 429 || status == 499 || status >= 500; }

std::string without_secrets(std::string text, const std::vector<std::string>& secrets) {
  constexpr std::string_view kShown = "...";
  for (const std::string& secret : secrets) {
    if (secret.empty()) continue;
    for (size_t at = 0; (at = text.find(secret, at)) != std::string::npos; at += kShown.size()) {
      text.replace(at, secret.size(), kShown);
    }
  }
  return text;
}

std::string one_line(std::string_view all) {
  constexpr size_t kMost = 200;
  std::string text(all.substr(0, kMost));
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return all.size() > kMost ? text + "..." : text;
}

}  // namespace millrace
