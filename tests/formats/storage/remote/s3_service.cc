#include "tests/formats/storage/remote/s3_service.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>

namespace millrace::test {
namespace {

std::string decoded(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      bytes += text[i];
      continue;
    }
    bytes += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
    i += 2;
  }
  return bytes;
}

std::string encoded(const std::string& text, bool is_path) {
  static const std::string kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
  std::string result;
  for (const unsigned char c : text) {
    if (kPlain.find(static_cast<char>(c)) != std::string::npos || (is_path && c == '/')) {
      result += static_cast<char>(c);
    } else {
      constexpr const char* kDigits = "0123456789ABCDEF";
      result += {'%', kDigits[c / 16], kDigits[c % 16]};
    }
  }
  return result;
}

std::string escaped(const std::string& text) {
  std::string xml;
  for (const char c : text) {
    switch (c) {
      case '&': xml += "&amp;"; break;
      case '<': xml += "&lt;"; break;
      case '>': xml += "&gt;"; break;
      case '"': xml += "&quot;"; break;
      default: xml += c;
    }
  }
  return xml;
}

}  // namespace

std::map<std::string, std::string> s3_query(const ServedRequest& request) {
  std::map<std::string, std::string> query;
  const size_t mark = request.path.find('?');
  std::string rest = mark == std::string::npos ? "" : request.path.substr(mark + 1);
  while (!rest.empty()) {
    const std::string one = rest.substr(0, rest.find('&'));
    rest.erase(0, std::min(one.size() + 1, rest.size()));
    const size_t equals = one.find('=');
    query[decoded(one.substr(0, equals))] = equals == std::string::npos ? "" : decoded(one.substr(equals + 1));
  }
  return query;
}

// With + for a space, as S3 does.
std::string s3_encoded(const std::string& key) {
  std::string text = encoded(key, true);
  for (size_t at = text.find("%20"); at != std::string::npos; at = text.find("%20", at)) text.replace(at, 3, "+");
  return text;
}

namespace {

std::string field(const ServedRequest& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

std::string to_hex(const std::string& bytes) {
  std::string text;
  for (const unsigned char c : bytes) text += fmt::format("{:02x}", c);
  return text;
}

std::string hash_of(const std::string& text) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(digest.data()), &size, EVP_sha256(), nullptr);
  return to_hex(digest.substr(0, size));
}

std::string mac_of(const std::string& key, const std::string& text) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  size_t size = 0;
  EVP_Q_mac(nullptr, "HMAC", nullptr, "SHA256", nullptr, key.data(), key.size(),
            reinterpret_cast<const unsigned char*>(text.data()), text.size(),
            reinterpret_cast<unsigned char*>(digest.data()), digest.size(), &size);
  return digest.substr(0, size);
}

// Behind `name=`, up to a comma or the end.
std::string part_of(const std::string& authorization, const std::string& name) {
  const size_t begin = authorization.find(name + "=");
  if (begin == std::string::npos) return "";
  const size_t value = begin + name.size() + 1;
  return authorization.substr(value, authorization.find(',', value) - value);
}

std::time_t time_of(const std::string& date) {  // 20130524T000000Z
  std::tm parts{};
  if (strptime(date.c_str(), "%Y%m%dT%H%M%SZ", &parts) == nullptr) return 0;
  return timegm(&parts);
}

std::optional<ServedFault> refusal(const ServedRequest& request, const S3ServiceOptions& options) {
  const std::string authorization = field(request, "authorization");
  const std::time_t now = std::time(nullptr) + options.clock_ahead.count();
  if (authorization.empty()) {
    if (options.allows_anonymous) return std::nullopt;
    return s3_fault(403, "AccessDenied");
  }
  const std::string credential = part_of(authorization, "Credential");
  std::vector<std::string> scope;  // key, date, region, service, end
  for (std::string rest = credential; !rest.empty();) {
    scope.push_back(rest.substr(0, rest.find('/')));
    rest.erase(0, std::min(scope.back().size() + 1, rest.size()));
  }
  const std::string date = field(request, "x-amz-date");
  if (scope.size() != 5 || scope[1] != date.substr(0, 8) || scope[3] != "s3" || scope[4] != "aws4_request") {
    return s3_fault(400, "AuthorizationHeaderMalformed");
  }
  if (scope[0] != options.access_key_id) {
    return s3_fault(403, "InvalidAccessKeyId", "<AWSAccessKeyId>" + scope[0] + "</AWSAccessKeyId>");
  }
  const std::string token = field(request, "x-amz-security-token");
  if (options.ended_token && token == options.ended_token(request)) {
    return s3_fault(400, "ExpiredToken", "<Token-0>" + token + "</Token-0>");
  }
  if (!options.session_token.empty() && token != options.session_token && !options.ended_token) {
    return s3_fault(400, "InvalidToken", "<Token-0>" + token + "</Token-0>");
  }
  if (std::abs(now - time_of(date)) > 15 * 60) return s3_fault(403, "RequestTimeTooSkewed");
  if (scope[2] != options.region) {
    return s3_fault(400, "AuthorizationHeaderMalformed", "<Region>" + options.region + "</Region>");
  }
  const std::string content = field(request, "x-amz-content-sha256");
  // Nothing guards a body on its way here, where there is no TLS.
  const bool is_unsigned = content == "UNSIGNED-PAYLOAD" && (options.is_behind_tls || request.body.empty());
  if (!is_unsigned && content != hash_of(request.body)) return s3_fault(400, "XAmzContentSHA256Mismatch");
  const std::string names = part_of(authorization, "SignedHeaders");
  std::string fields;
  for (const auto& [name, value] : request.headers) {
    const bool is_signed = (";" + names + ";").find(";" + name + ";") != std::string::npos;
    if (is_signed) fields += name + ":" + value + "\n";
    if (!is_signed && (name == "host" || name.starts_with("x-amz-"))) {
      return s3_fault(403, "AccessDenied", "<HeadersNotSigned>" + name + "</HeadersNotSigned>");
    }
  }
  std::string query;
  for (const auto& [name, value] : s3_query(request)) {
    query += (query.empty() ? "" : "&") + encoded(name, false) + "=" + encoded(value, false);
  }
  const std::string path = request.path.substr(0, request.path.find('?'));
  const std::string canonical = request.method + "\n" + encoded(decoded(path), true) + "\n" + query + "\n" + fields +
                                "\n" + names + "\n" + content;
  const std::string to_sign =
      "AWS4-HMAC-SHA256\n" + date + "\n" + credential.substr(credential.find('/') + 1) + "\n" + hash_of(canonical);
  const std::string key =
      mac_of(mac_of(mac_of(mac_of("AWS4" + options.secret_access_key, scope[1]), scope[2]), "s3"), "aws4_request");
  if (to_hex(mac_of(key, to_sign)) != part_of(authorization, "Signature")) {
    return s3_fault(403, "SignatureDoesNotMatch",
                    "<AWSAccessKeyId>" + scope[0] + "</AWSAccessKeyId><CanonicalRequest>" + escaped(canonical) +
                        "</CanonicalRequest>");
  }
  return std::nullopt;
}

// 0: the request is implemented.
int not_implemented(const ServedRequest& request, const S3ServiceOptions& options) {
  if (request.method != "PUT" && request.method != "POST") return 0;
  for (const auto& [name, status] : options.not_implemented) {
    if (request.headers.contains(name)) return status;
  }
  return 0;
}

ServedFault listing(const std::string& bucket, const std::map<std::string, std::string>& query, const NextEntry& next) {
  const auto value = [&](const std::string& name) {
    const auto found = query.find(name);
    return found == query.end() ? std::string() : found->second;
  };
  const std::string prefix = value("prefix");
  const bool by_folder = value("delimiter") == "/";
  const bool is_encoded = value("encoding-type") == "url";
  const size_t most = std::min<size_t>(value("max-keys").empty() ? 1000 : std::stoul(value("max-keys")), 1000);
  const auto shown = [&](const std::string& key) { return is_encoded ? s3_encoded(key) : escaped(key); };
  std::string from = prefix;
  if (const std::string token = value("continuation-token"); !token.empty()) {
    if (!token.starts_with("+/=?&")) return s3_fault(400, "InvalidArgument");
    from = decoded(token.substr(5));
  }
  std::string entries;
  size_t num_entries = 0;
  std::optional<ListedEntry> entry;
  for (entry = next(bucket, from); entry && entry->key.starts_with(prefix); entry = next(bucket, from)) {
    if (num_entries++ == most) break;
    const size_t slash = by_folder ? entry->key.find('/', prefix.size()) : std::string::npos;
    if (slash != std::string::npos) {
      const std::string folder = entry->key.substr(0, slash + 1);
      entries += "<CommonPrefixes><Prefix>" + shown(folder) + "</Prefix></CommonPrefixes>";
      from = folder + '\xff';
      continue;
    }
    entries += fmt::format(
        "<Contents><Key>{}</Key><LastModified>2026-11-28T00:00:00.000Z</LastModified><ETag>&quot;{}&quot;</ETag>"
        "<Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents>",
        shown(entry->key), entry->tag, entry->size);
    from = entry->key + '\0';
  }
  const bool is_truncated = entry && entry->key.starts_with(prefix);
  std::string xml = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>{}</Name><IsTruncated>{}</IsTruncated>",
      bucket, is_truncated);
  if (is_encoded) xml += "<EncodingType>url</EncodingType>";
  if (is_truncated) {
    xml += "<NextContinuationToken>+/=?&amp;" + escaped(encoded(from, false)) + "</NextContinuationToken>";
  }
  return {.kind = ServedFault::Kind::kStatus, .status = 200, .text = xml + entries + "</ListBucketResult>"};
}

}  // namespace

std::string s3_path(const ServedRequest& request) {
  std::string path = decoded(request.path.substr(0, request.path.find('?')));
  const std::string host = field(request, "host");
  const size_t domain = host.find(".localhost");
  return domain == std::string::npos ? path : "/" + host.substr(0, domain) + path;
}

ServedFault s3_fault(int status, const std::string& code, const std::string& more) {
  return {.kind = ServedFault::Kind::kStatus,
          .status = status,
          .headers = {{"Content-Type", "application/xml"}, {"x-amz-request-id", "4442587FB7D0A2F9"}},
          .text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>" + code + "</Code><Message>It is " + code +
                  " &amp; no more</Message>" + more + "<HostId>host</HostId></Error>"};
}

std::optional<ServedFault> answer_s3(const ServedRequest& request, const S3ServiceOptions& options,
                                     const NextEntry& next) {
  const std::string path = s3_path(request);
  const std::string bucket = path.substr(1, path.find('/', 1) - 1);
  const std::string key = bucket.size() + 2 > path.size() ? "" : path.substr(bucket.size() + 2);
  std::optional<ServedFault> answer;
  if (request.method == "HEAD" && key.empty()) {  // everybody may ask for the region
    answer = s3_fault(options.allows_anonymous ? 200 : 403, "AccessDenied");
    answer->headers["x-amz-bucket-region"] = options.region;
  } else if (answer = refusal(request, options); !answer) {
    if (options.requester_pays && field(request, "x-amz-request-payer") != "requester") {
      answer = s3_fault(403, "AccessDenied");
    } else if (!next(bucket, "")) {
      answer = s3_fault(404, "NoSuchBucket");
    } else if (const int status = not_implemented(request, options); status != 0) {
      answer = s3_fault(status, "NotImplemented");
    } else if (key.empty() && !s3_query(request).contains("uploads")) {
      answer = options.allows_listing ? listing(bucket, s3_query(request), next) : s3_fault(403, "AccessDenied");
    }
  }
  if (answer) {
    answer->headers["Date"] =
        fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(std::time(nullptr) + options.clock_ahead.count()));
  }
  return answer;
}

}  // namespace millrace::test
