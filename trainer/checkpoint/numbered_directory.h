#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

/// The name of the directory that belongs to a step: `prefix` and the number, with zeros in front to at least eight
/// digits: shorter names sort as their numbers do.
std::string numbered_name(std::string_view prefix, int64_t step);

/// Whether a directory's name is one of those.
bool is_numbered(std::string_view name, std::string_view prefix);

}  // namespace millrace
