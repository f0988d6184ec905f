#pragma once

#include <string>

#include "millrace/pipeline/statistics.h"

namespace millrace {

/// What limits a pipeline, in a sentence with the figures that say so: see Statistics::bottleneck.
[[nodiscard]] std::string bottleneck_text(const Statistics& statistics);

}  // namespace millrace
