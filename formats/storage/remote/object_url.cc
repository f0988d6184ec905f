#include "millrace/formats/storage/remote/object_url.h"

#include <algorithm>
#include <memory>
#include <new>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/byte_range.h"
#include "millrace/formats/storage/remote/curl_url.h"
#include "millrace/formats/storage/remote/http_message.h"
#include "millrace/formats/storage/shown_url.h"

namespace millrace {
namespace {

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

[[noreturn]] void refuse(std::string_view url, std::string_view why) {
  throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("'{}' {}", one_line(url), why));
}

}  // namespace

ObjectUrl parse_object_url(std::string_view url) {
  const size_t scheme_end = url.find("://");
  if (scheme_end == std::string_view::npos) refuse(url, "is no URL of an object: SCHEME://BUCKET/KEY");
  const size_t bucket_begin = scheme_end + 3;
  const size_t bucket_end = std::min(url.find('/', bucket_begin), url.size());
  ObjectUrl parts{.scheme = std::string(url.substr(0, scheme_end)),
                  .bucket = std::string(url.substr(bucket_begin, bucket_end - bucket_begin)),
                  .key = std::string(url.substr(std::min(bucket_end + 1, url.size())))};
  const bool is_bucket = !parts.bucket.empty() && is_letter_or_digit(parts.bucket.front()) &&
                         std::ranges::all_of(parts.bucket, [](char c) {
                           return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_';
                         });
  if (!is_bucket) refuse(url, "names no bucket: letters, digits, '.', '-' and '_', as in SCHEME://BUCKET/KEY");
  return parts;
}

std::string percent_encoded(std::string_view text, std::string_view kept) {
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    if (is_letter_or_digit(c) || c == '-' || c == '.' || c == '_' || c == '~' || kept.find(c) != kept.npos) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

std::string percent_decoded(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_code =
        text[i] == '%' && i + 2 < text.size() && digit_of(text[i + 1]) >= 0 && digit_of(text[i + 2]) >= 0;
    if (is_code) {
      decoded += static_cast<char>(digit_of(text[i + 1]) * 16 + digit_of(text[i + 2]));
      i += 2;
    } else {
      decoded += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

std::string origin_of(std::string_view url) {
  const size_t scheme_end = url.find("://");
  return std::string(url.substr(0, url.find_first_of("/?#", scheme_end == url.npos ? 0 : scheme_end + 3)));
}

HttpUrl parse_http_url(std::string_view url) {
  const bool is_secure = url.starts_with("https://");
  if (!is_secure && !url.starts_with("http://")) refuse(url, "is no URL of http or https");
  const size_t begin = is_secure ? 8 : 7;
  HttpUrl parts{.origin = origin_of(url)};
  const size_t end = parts.origin.size();
  const size_t path_end = std::min(url.find_first_of("?#", end), url.size());
  const std::string_view authority = url.substr(begin, end - begin);
  if (authority.find('@') != authority.npos) refuse(url.substr(0, begin), "may name no user or password");
  // An address of IPv6 has colons inside its brackets.
  const size_t colon = authority.find(':', authority.starts_with('[') ? authority.find(']') : 0);
  parts.host = authority.substr(0, colon);
  parts.path = url.substr(end, path_end - end);
  if (path_end < url.size() && url[path_end] == '?') {
    parts.query = url.substr(path_end + 1, url.find('#', path_end) - path_end - 1);
  }
  const std::string_view port = colon == authority.npos ? "" : authority.substr(colon + 1);
  const auto number = parse_count(port);
  const bool is_wrong = colon != authority.npos && (!number || *number == 0 || *number > 65535);
  const bool is_host = std::ranges::none_of(
      parts.host, [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\\' || c == '%' || c == 0x7f; });
  if (parts.host.empty() || !is_host || is_wrong) {
    // Behind a password with a slash the host comes later.
    const bool may_have_password = url.find('@', begin) != url.npos;
    refuse(may_have_password ? url.substr(0, begin) : shown_url(std::string(url)), "names no host and port");
  }
  const bool is_own_port = port.empty() || number == (is_secure ? 443U : 80U);
  parts.host_field = is_own_port ? parts.host : fmt::format("{}:{}", parts.host, *number);
  return parts;
}

std::optional<std::string> redirect_target(const std::string& base, const std::string& location) {
  const std::unique_ptr<CURLU, CurlUrlDeleter> url(curl_url());
  if (url == nullptr) throw std::bad_alloc();
  if (curl_url_set(url.get(), CURLUPART_URL, base.c_str(), 0) != CURLUE_OK) return std::nullopt;
  // Relative to what is there.
  if (curl_url_set(url.get(), CURLUPART_URL, location.c_str(), 0) != CURLUE_OK) return std::nullopt;
  char* text = nullptr;
  if (curl_url_get(url.get(), CURLUPART_URL, &text, 0) != CURLUE_OK) return std::nullopt;
  const std::unique_ptr<char, CurlUrlDeleter> owned(text);
  const std::string target(text);
  if (base.starts_with("https://") && !target.starts_with("https://")) return std::nullopt;
  try {
    static_cast<void>(parse_http_url(target));
  } catch (const ErrorException&) {
    return std::nullopt;
  }
  return target;
}

}  // namespace millrace
