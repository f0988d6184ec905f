#pragma once

#include <string>

#include "millrace/formats/records/shards.h"

namespace millrace {

/// `listed_shards`, once for each pattern in a process.
[[nodiscard]] const Shards& bench_shards(const std::string& pattern);

}  // namespace millrace
