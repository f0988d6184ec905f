#include "millrace/formats/storage/remote/s3_config.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/aws_config.h"
#include "millrace/formats/storage/remote/http_message.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/text/lower_case.h"

namespace millrace {
namespace {

bool is_yes(const std::optional<std::string>& value) {
  const std::string text = lower_case(value.value_or(""));
  return text == "yes" || text == "true" || text == "1" || text == "on";
}

// Name of the host of a domain of AWS's.
bool is_aws_host(std::string_view host) {
  return host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn");
}

// The region in the name of one of AWS's endpoints (https://docs.aws.amazon.com/general/latest/gr/s3.html), of a VPC's
// too: `s3.dualstack.eu-west-1.amazonaws.com`, `bucket.vpce-1a2b.s3.eu-west-1.vpce.amazonaws.com`. Empty: it has none.
std::string region_of_host(std::string_view host) {
  host = host.substr(0, host.rfind(".amazonaws.com"));
  if (host.ends_with(".vpce")) host.remove_suffix(5);
  std::string_view last = host.substr(host.rfind('.') + 1);
  if (last.starts_with("s3-")) last.remove_prefix(3);  // as of the oldest endpoints
  const bool is_region = std::ranges::count(last, '-') >= 2 && last.back() >= '0' && last.back() <= '9';
  return is_region ? std::string(last) : "";
}

// https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html; with dots there is no certificate.
bool can_be_in_host(std::string_view bucket) {
  return bucket.size() <= 63 && bucket.back() != '-' && std::ranges::all_of(bucket, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

}  // namespace

bool is_region_name(std::string_view text) {
  constexpr size_t kMost = 63;  // of a label in the name of a host (RFC 1035, 2.3.4)
  return !text.empty() && text.size() <= kMost && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

S3Config resolve_s3(S3Options options, const Environment& environment) {
  std::string endpoint_from = "the option of the endpoint";
  for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}) {
    if (!options.endpoint.empty()) break;
    options.endpoint = environment(name).value_or("");
    endpoint_from = name;
  }
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (options.region.empty()) options.region = environment(name).value_or("");
  }
  if (options.endpoint.empty() || options.region.empty()) {
    const AwsProfile profile = load_aws_profile(environment, options.profile);
    if (options.region.empty()) options.region = profile.region;
    if (options.endpoint.empty()) {
      options.endpoint = profile.s3_endpoint_url.empty() ? profile.endpoint_url : profile.s3_endpoint_url;
      endpoint_from = fmt::format("endpoint_url of profile {} in {}", profile.name, profile.files);
    }
  }
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  S3Config config{.options = std::move(options)};
  S3Options& resolved = config.options;
  std::string host;
  if (!resolved.endpoint.empty()) {
    try {
      const HttpUrl url = parse_http_url(resolved.endpoint);
      host = lower_case(url.host);
      if (resolved.endpoint.find_first_of("?#") != std::string::npos) {
        throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("'{}' has a query", url.origin + url.path));
      }
    } catch (const ErrorException& exception) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("{}: {}", endpoint_from, exception.error().message));
    }
  }
  config.is_aws = resolved.endpoint.empty() || is_aws_host(host);
  if (resolved.region.empty() && is_aws_host(host)) resolved.region = region_of_host(host);
  if (!resolved.region.empty() && !is_region_name(resolved.region)) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("'{}' is no name of a region", one_line(resolved.region)));
  }
  config.finds_region = resolved.finds_region.value_or(resolved.endpoint.empty() && resolved.region.empty());
  if (resolved.region.empty() && !config.finds_region) {
    resolved.region = host.ends_with(".r2.cloudflarestorage.com") ? "auto" : "us-east-1";
  }
  resolved.anonymous = resolved.anonymous || is_yes(environment("AWS_NO_SIGN_REQUEST"));
  resolved.requester_pays =
      resolved.requester_pays || lower_case(environment("AWS_REQUEST_PAYER").value_or("")) == "requester";
  return config;
}

std::string s3_bucket_url(const S3Config& config, const std::string& bucket, const std::string& region) {
  const bool has_endpoint = !config.options.endpoint.empty();
  const bool in_path = config.options.path_style.value_or(has_endpoint || !can_be_in_host(bucket));
  std::string scheme = "https://";
  std::string rest;
  if (!has_endpoint) {
    rest = region.empty() ? "s3.amazonaws.com" : fmt::format("s3.{}.amazonaws.com", region);
    if (region.starts_with("cn-")) rest += ".cn";
  } else {
    const size_t host = config.options.endpoint.find("://") + 3;
    scheme = config.options.endpoint.substr(0, host);
    rest = config.options.endpoint.substr(host);
  }
  return in_path ? fmt::format("{}{}/{}", scheme, rest, bucket) : fmt::format("{}{}.{}", scheme, bucket, rest);
}

bool may_redirect_s3(const S3Config& config, const std::string& from, const std::string& to) {
  const HttpUrl source = parse_http_url(from);
  HttpUrl target;
  try {
    target = parse_http_url(to);
  } catch (const ErrorException&) {  // a server's word: with a password, for one
    return false;
  }
  if (source.origin.starts_with("https://") && !target.origin.starts_with("https://")) return false;
  const std::string host = lower_case(target.host);
  if (host == lower_case(source.host)) return true;
  if (config.is_aws) return is_aws_host(host);
  return std::ranges::any_of(config.options.redirect_hosts,
                             [&](const auto& known) { return lower_case(known) == host; });
}

}  // namespace millrace
