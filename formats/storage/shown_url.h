#pragma once

#include <string>

namespace millrace {

/// A URL as messages show it: of http and https without user, password and query, which may be secrets.
[[nodiscard]] std::string shown_url(const std::string& url);

}  // namespace millrace
