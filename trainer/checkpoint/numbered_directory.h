#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// The name of the directory that belongs to a step: `prefix` and the number, with zeros in front to at least eight
/// digits: shorter names sort as their numbers do.
std::string numbered_name(std::string_view prefix, int64_t step);

/// The paths in `folder` whose names are of those, by ascending number. Throws `kIo` for a folder that cannot be read;
/// one that does not exist holds none.
std::vector<std::string> numbered_directories(const std::string& folder, std::string_view prefix);

}  // namespace millrace
