#include "millrace/formats/storage/remote/google_error.h"

#include <fmt/format.h>

#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

constexpr size_t kLongestDocument = 64 << 10;
constexpr size_t kMostShown = 300;

using Json = nlohmann::json;

// Of a field that is a text.
std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return {};
  return excerpt(printable(found->get<std::string>()), kMostShown);
}

bool read_document(std::string_view body, GoogleError& error) {
  Json document;
  try {
    document = parse_json<Json>(body, "");
  } catch (const ErrorException&) {
    return false;
  }
  const auto found = document.is_object() ? document.find("error") : document.end();
  if (found == document.end()) return false;
  if (found->is_string()) {  // as OAuth 2.0 has it
    error.reason = text_of(document, "error");
    error.message = text_of(document, "error_description");
    return true;
  }
  if (!found->is_object()) return false;
  error.message = text_of(*found, "message");
  error.reason = text_of(*found, "status");
  const auto errors = found->find("errors");
  if (errors != found->end() && errors->is_array() && !errors->empty() && errors->front().is_object()) {
    if (std::string reason = text_of(errors->front(), "reason"); !reason.empty()) error.reason = std::move(reason);
  }
  return true;
}

}  // namespace

std::string GoogleError::to_string() const {
  std::string text = fmt::format("status {}", status);
  if (!reason.empty()) text += fmt::format(" ({})", reason);
  if (!message.empty()) text += ": " + message;
  return text;
}

GoogleError parse_google_error(int status, std::string_view body) {
  GoogleError error{.status = status};
  if (body.size() <= kLongestDocument && read_document(body, error)) return error;
  while (!body.empty() && (body.back() == '\n' || body.back() == '\r')) body.remove_suffix(1);
  error.message = excerpt(printable(body.substr(0, 4 * kMostShown)), kMostShown);
  return error;
}

}  // namespace millrace
