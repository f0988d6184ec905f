#include "millrace/formats/storage/remote/gcs_url.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

constexpr std::string_view kScheme = "gs://";
constexpr size_t kShortestBucket = 3;
constexpr size_t kLongestBucket = 222;
constexpr size_t kLongestKey = 1024;

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool is_bucket(std::string_view name) {
  if (name.size() < kShortestBucket || name.size() > kLongestBucket) return false;
  if (!is_letter_or_digit(name.front()) || !is_letter_or_digit(name.back())) return false;
  return std::ranges::all_of(name, [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; });
}

std::string why_no_key(std::string_view key) {
  if (key.size() > kLongestKey) return fmt::format("its key has {} bytes, more than {}", key.size(), kLongestKey);
  if (!is_valid_utf8(key)) return "its key is no UTF-8";
  if (key.find_first_of("\r\n") != std::string_view::npos) return "its key has a line end";
  if (key == "." || key == "..") return fmt::format("no key is '{}'", key);
  return {};
}

std::string object_url(const GcsService& service, const ObjectUrl& object) {
  return fmt::format("{}/storage/v1/b/{}/o/{}", service.endpoint, percent_encoded(object.bucket),
                     percent_encoded(object.key));
}

// Servers heed the one or the other: what was replaced is 404 by the first, 412 by the second.
std::string match_of(const std::string& generation) {
  return fmt::format("&generation={0}&ifGenerationMatch={0}", percent_encoded(generation));
}

std::string payer_of(const GcsService& service) {
  return service.user_project.empty() ? "" : "&userProject=" + percent_encoded(service.user_project);
}

}  // namespace

bool is_gcs_url(std::string_view path) { return path.starts_with(kScheme); }

ObjectUrl parse_gcs_url(const std::string& path) {
  const auto refuse = [&path](const std::string& why) {
    throw ErrorException({.code = ErrorCode::kInvalidArgument,
                          .message = "no URL of Google Cloud Storage, gs://BUCKET/KEY: " + why,
                          .shard = path});
  };
  if (!is_gcs_url(path)) refuse("it does not begin with gs://");
  const std::string_view rest = std::string_view(path).substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  ObjectUrl url{.scheme = "gs", .bucket = std::string(rest.substr(0, slash))};
  if (slash < rest.size()) url.key = rest.substr(slash + 1);
  if (!is_bucket(url.bucket)) {
    refuse(fmt::format("no bucket has the name '{}'", excerpt(printable(url.bucket))));
  }
  if (const std::string why = why_no_key(url.key); !why.empty()) refuse(why);
  return url;
}

std::string gcs_endpoint(const std::string& text, std::string_view what) {
  std::string endpoint = text.find("://") == std::string::npos ? "http://" + text : text;
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (endpoint.find('@') != std::string::npos) {  // nor is it shown
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{} may name no user or password", what));
  }
  const bool is_url = (endpoint.starts_with("http://") || endpoint.starts_with("https://")) &&
                      endpoint.find_first_of("?# \t\r\n") == std::string::npos;
  if (!is_url) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{} is no URL of http or https: '{}'", what, excerpt(printable(text))));
  }
  return endpoint;
}

std::optional<std::string> gcs_emulator(const Environment& environment) {
  for (const char* name : {"STORAGE_EMULATOR_HOST", "CLOUD_STORAGE_EMULATOR_ENDPOINT"}) {
    const std::optional<std::string> value = environment(name);
    if (value && !value->empty()) return gcs_endpoint(*value, name);
  }
  return std::nullopt;
}

std::string gcs_media_url(const GcsService& service, const ObjectUrl& object, const std::string& generation) {
  std::string url = object_url(service, object) + "?alt=media";
  if (!generation.empty()) url += match_of(generation);
  return url + payer_of(service);
}

std::string gcs_upload_url(const GcsService& service, const ObjectUrl& object, std::string_view type,
                           const std::string& replaced) {
  std::string url = fmt::format("{}/upload/storage/v1/b/{}/o?uploadType={}&name={}", service.endpoint,
                                percent_encoded(object.bucket), type, percent_encoded(object.key));
  if (!replaced.empty()) url += "&ifGenerationMatch=" + percent_encoded(replaced);
  return url + payer_of(service);
}

std::string gcs_resource_url(const GcsService& service, const ObjectUrl& object) {
  return object_url(service, object) + "?fields=size%2Ccrc32c%2Cgeneration%2Cmetadata" + payer_of(service);
}

std::string gcs_generation_url(const GcsService& service, const ObjectUrl& object, const std::string& generation) {
  return object_url(service, object) + "?alt=json" + match_of(generation) + payer_of(service);
}

}  // namespace millrace
