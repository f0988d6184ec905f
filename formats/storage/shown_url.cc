#include "millrace/formats/storage/shown_url.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace {

std::string shown_url(const std::string& url) {
  if (!url.starts_with("http://") && !url.starts_with("https://")) return url;
  const size_t begin = url.find("://") + 3;
  const size_t path = std::min(url.find_first_of("/?#", begin), url.size());
  const size_t user = url.rfind('@', path);
  const size_t host = user == std::string::npos || user < begin ? begin : user + 1;
  const size_t query = std::min(url.find('?', path), url.size());
  return fmt::format("{}{}{}", url.substr(0, begin), url.substr(host, query - host), query < url.size() ? "?..." : "");
}

}  // namespace millrace
