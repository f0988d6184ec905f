#pragma once

#include <string>
#include <string_view>

namespace millrace {

/// What an answer of Google's APIs or of their token endpoint says is wrong
/// (https://cloud.google.com/storage/docs/json_api/v1/status-codes; RFC 6749, 5.2).
struct GoogleError {
  int status = 0;
  std::string reason = {};   ///< a word for programs, such as `notFound` or `invalid_grant`; empty: it gives none
  std::string message = {};  ///< printable, one line of at most 300 characters; empty: it gives none

  /// `status 404 (notFound): The specified bucket does not exist.`
  [[nodiscard]] std::string to_string() const;
};

/// Of a body that may be anything: those of downloads are plain text, those of proxies HTML.
[[nodiscard]] GoogleError parse_google_error(int status, std::string_view body);

}  // namespace millrace
