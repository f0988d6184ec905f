#pragma once

#include <string>
#include <system_error>
#include <vector>

namespace millrace {

/// The names in a local folder, without "." and "..", in the order of their bytes; `error` is set where it cannot be
/// read, and what was found until then is returned. std::filesystem's iterators are not used for it: where memory ends,
/// libstdc++'s end the process. Any thread.
/// Throws: std::bad_alloc.
std::vector<std::string> names_in(const std::string& folder, std::error_code& error);
/// The same. Throws: ErrorException `io` with the folder, std::bad_alloc.
std::vector<std::string> names_in(const std::string& folder);

}  // namespace millrace
