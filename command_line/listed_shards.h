#pragma once

#include <string>
#include <vector>

#include "millrace/formats/records/shards.h"

namespace millrace {

/// `Shards::glob`, which shows on a terminal how far the listing of a bucket is.
[[nodiscard]] Shards listed_shards(const std::string& pattern);
/// `glob_anywhere`, which does the same.
[[nodiscard]] std::vector<std::string> listed_paths(const std::string& pattern);

}  // namespace millrace
