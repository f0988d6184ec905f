#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace millrace {

/// `s3://BUCKET/KEY`. The key is everything after the slash that ends the bucket, byte by byte: nothing of it is
/// decoded, and `?`, `#`, `%`, `//` and `..` are parts of keys as all other bytes are.
struct ObjectUrl {
  std::string scheme = {};  ///< `s3`
  std::string bucket = {};
  std::string key = {};  ///< may be empty

  [[nodiscard]] std::string to_string() const { return scheme + "://" + bucket + "/" + key; }
};

/// Whether a path is the URL of what is in a bucket, by its scheme.
[[nodiscard]] inline bool is_in_bucket(std::string_view path) {
  return path.starts_with("s3://") || path.starts_with("gs://");
}

/// Without slashes at its end: in a URL one would be a part of the keys of what is in a folder.
[[nodiscard]] inline std::string without_slash(std::string url) {
  url.resize(url.find_last_not_of('/') + 1);
  return url;
}
/// Whether a URL without a slash at its end is that of a folder in a bucket, and not of a bucket.
[[nodiscard]] inline bool is_folder_in_bucket(std::string_view url) {
  return is_in_bucket(url) && url.find('/', url.find("://") + 3) != std::string_view::npos;
}

/// Throws `kInvalidArgument` where there is no scheme, or no bucket of letters, digits, `.`, `-` and `_`.
[[nodiscard]] ObjectUrl parse_object_url(std::string_view url);

/// Every byte as `%XX`, except letters, digits, `-`, `.`, `_`, `~` (RFC 3986, 2.3) and those in `kept`.
[[nodiscard]] std::string percent_encoded(std::string_view text, std::string_view kept = "");
/// `%XX` are bytes again; a `%` before anything else stays. `plus_is_space`: as in forms
/// (https://url.spec.whatwg.org/#urlencoded-parsing).
[[nodiscard]] std::string percent_decoded(std::string_view text, bool plus_is_space = false);

/// `https://example.org:8443` or `s3://bucket`: what stands before the path of a URL, which may be none that is valid.
[[nodiscard]] std::string origin_of(std::string_view url);

/// The parts of an `http(s)://` URL, as they stand in it.
struct HttpUrl {
  std::string origin = {};      ///< see `origin_of`
  std::string host = {};        ///< `example.org`
  std::string host_field = {};  ///< what a `Host` field says of it: `example.org:8443`, without a scheme's own port
  std::string path = {};        ///< `/a/b`; empty where it is
  std::string query = {};       ///< after the `?`
};

/// Throws `kInvalidArgument` where it is no such URL, or names a user.
[[nodiscard]] HttpUrl parse_http_url(std::string_view url);

/// The URL that a `Location` field names for whoever asked `base` (RFC 3986, 5); nothing where that is no URL of http
/// or https, names a user, or leads from https to http.
[[nodiscard]] std::optional<std::string> redirect_target(const std::string& base, const std::string& location);

}  // namespace millrace
