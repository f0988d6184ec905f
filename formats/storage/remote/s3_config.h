#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/storage/remote/aws_credentials.h"
#include "millrace/formats/storage/remote/environment.h"
#include "millrace/formats/storage/remote/refreshed.h"

namespace millrace {

/// How objects at `s3://BUCKET/KEY` are reached: of AWS, and of stores that speak its language.
struct S3Options {
  /// `https://HOST[:PORT][/PATH]`, or http. Default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, that of the profile, else
  /// that of AWS
  std::string endpoint = {};
  /// Default: AWS_REGION, AWS_DEFAULT_REGION, that of the profile, else what the store says of each bucket; with an
  /// endpoint of one's own what its name says where it is AWS's, else `us-east-1`, with one of Cloudflare's R2 `auto`
  std::string region = {};
  /// Whether a bucket is named in the path, not in the name of the host. Default: with an endpoint of one's own, and
  /// for buckets whose name cannot be a part of a host's (TLS has no certificates for such with dots)
  std::optional<bool> path_style = {};
  /// Asks the store for the region of each bucket. Default: neither region nor endpoint is given
  std::optional<bool> finds_region = {};
  /// Signs nothing, for public buckets. Default: AWS_NO_SIGN_REQUEST is `yes`, `true` or `1`
  bool anonymous = false;
  /// Pays for requests to buckets of others. Default: AWS_REQUEST_PAYER is `requester`
  bool requester_pays = false;
  /// Hosts to which an endpoint of one's own may redirect signed requests, beside itself. Default: none
  std::vector<std::string> redirect_hosts = {};
  /// Of the files of AWS (`load_aws_profile`). Default: empty, AWS_PROFILE, AWS_DEFAULT_PROFILE, `default`
  std::string profile = {};
  /// Default: none, see `fetch_credentials`
  std::optional<AwsCredentials> credentials = {};
  /// Asks for credentials whenever new ones are needed. Default: null, `aws_credentials`, which asks the metadata of an
  /// instance only where the endpoint is that of AWS
  Refreshed<AwsCredentials>::Fetch fetch_credentials = nullptr;
};

/// The options with what the environment says in place of what they leave open.
struct S3Config {
  S3Options options = {};  ///< `endpoint` without a slash at its end; `region` empty: it is to be found
  bool is_aws = true;      ///< the endpoint is one of AWS's, the default one or that of a VPC, FIPS or dual stack
  bool finds_region = false;
};

/// Up to 63 letters, digits, `-` and `_`: what cannot change the name of a host that it becomes a part of.
[[nodiscard]] bool is_region_name(std::string_view text);

/// Throws `kInvalidArgument` for an endpoint that is no URL of http or https, and a region that cannot be one; and as
/// `load_aws_profile`, which it calls where something is left open. Waits for the disk then.
[[nodiscard]] S3Config resolve_s3(S3Options options, const Environment& environment);

/// `https://BUCKET.s3.REGION.amazonaws.com`, or `https://s3.REGION.amazonaws.com/BUCKET`: what comes before `/KEY`.
/// Without a region the one that knows all buckets of AWS.
[[nodiscard]] std::string s3_bucket_url(const S3Config& config, const std::string& bucket, const std::string& region);

/// Whether a request to `from` may be signed anew for `to`, where it was redirected to: a host of AWS from one of AWS,
/// the same host or one of `redirect_hosts` from others; never from https to http.
[[nodiscard]] bool may_redirect_s3(const S3Config& config, const std::string& from, const std::string& to);

}  // namespace millrace
