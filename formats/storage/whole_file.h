#pragma once

#include <string>
#include <string_view>

namespace millrace {

/// The bytes of a local file, which may be a pipe. Throws `kIo`: "cannot read the WHAT", the reason of the system or
/// that it is longer than 1 GiB, and the path.
[[nodiscard]] std::string read_whole_file(const std::string& path, std::string_view what = "file");

}  // namespace millrace
