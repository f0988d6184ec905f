#pragma once

#include <string>

#include "millrace/formats/records/shards.h"

namespace millrace {

/// `Shards::glob`, which shows on a terminal how far the listing of a bucket is.
[[nodiscard]] Shards listed_shards(const std::string& pattern);

}  // namespace millrace
