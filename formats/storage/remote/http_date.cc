#include "millrace/formats/storage/remote/http_date.h"

#include <curl/curl.h>

namespace millrace {

std::optional<std::chrono::sys_seconds> parse_http_date(const std::string& text) {
  constexpr std::chrono::sys_seconds kLast = std::chrono::sys_days(std::chrono::year(2201) / 1 / 1);
  const time_t time = curl_getdate(text.c_str(), nullptr);
  if (time < 0 || time >= kLast.time_since_epoch().count()) return std::nullopt;
  return std::chrono::sys_seconds(std::chrono::seconds(time));
}

}  // namespace millrace
