#include "millrace/formats/storage/remote/s3_signature.h"

#include <algorithm>
#include <array>
#include <map>
#include <new>
#include <span>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "millrace/formats/storage/remote/http_message.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/text/lower_case.h"

namespace millrace {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

std::string hex(const Digest& digest) { return fmt::format("{:02x}", fmt::join(digest, "")); }

Digest hmac(std::span<const unsigned char> key, std::string_view text) {
  Digest digest;
  unsigned int bytes = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
           text.size(), digest.data(), &bytes) == nullptr) {
    throw std::bad_alloc();
  }
  return digest;
}

// Encoded as the signature wants it, whatever the URL has encoded.
std::string canonical_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> parameters;
  for (size_t begin = 0; begin < query.size();) {
    const size_t end = std::min(query.find('&', begin), query.size());
    const std::string_view parameter = query.substr(begin, end - begin);
    begin = end + 1;
    if (parameter.empty()) continue;
    const size_t equals = std::min(parameter.find('='), parameter.size());
    parameters.emplace_back(percent_encoded(percent_decoded(parameter.substr(0, equals))),
                            percent_encoded(percent_decoded(parameter.substr(std::min(equals + 1, parameter.size())))));
  }
  std::ranges::sort(parameters);
  std::string canonical;
  for (const auto& [name, value] : parameters) {
    if (!canonical.empty()) canonical += '&';
    canonical.append(name).append("=").append(value);
  }
  return canonical;
}

}  // namespace

std::string sha256_hex(std::string_view text) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return hex(digest);
}

void sign_aws(HttpRequest& request, const AwsCredentials& credentials, const AwsSigning& signing) {
  const std::string time =
      fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(signing.time)));
  request.headers.add("x-amz-date", time);
  if (!credentials.session_token.empty()) request.headers.add("x-amz-security-token", credentials.session_token);

  const HttpUrl url = parse_http_url(request.url);
  std::map<std::string, std::string> fields{{"host", lower_case(url.host_field)}};
  for (const auto& [name, value] : request.headers.fields()) {
    if (lower_case(name).starts_with("x-amz-")) fields[lower_case(name)] = value;
  }
  std::string signed_fields;
  std::string names;
  for (const auto& [name, value] : fields) {
    signed_fields.append(name).append(":").append(value).append("\n");
    names.append(names.empty() ? "" : ";").append(name);
  }
  const std::string* const content = request.headers.find("x-amz-content-sha256");
  const std::string path = percent_encoded(percent_decoded(url.path), "/");
  const std::string canonical =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", to_string(request.method), path.empty() ? "/" : path,
                  canonical_query(url.query), signed_fields, names, content ? *content : sha256_hex(request.content()));

  const std::string date = time.substr(0, 8);
  const std::string scope = fmt::format("{}/{}/{}/aws4_request", date, signing.region, signing.service);
  const std::string to_sign = fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", time, scope, sha256_hex(canonical));
  const std::string secret = "AWS4" + credentials.secret_access_key;
  Digest key = hmac({reinterpret_cast<const unsigned char*>(secret.data()), secret.size()}, date);
  for (const std::string_view part :
       {std::string_view(signing.region), std::string_view(signing.service), std::string_view("aws4_request")}) {
    key = hmac(key, part);
  }
  request.headers.add("Authorization", fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}",
                                                   credentials.access_key_id, scope, names, hex(hmac(key, to_sign))));
}

}  // namespace millrace
