#include "millrace/tokenizer/post_processors/byte_level.h"

#include <nlohmann/json.hpp>

namespace millrace {

std::vector<OffsetTrimming> ByteLevelPostProcessor::trimmings() const {
  if (!options_.trim_offsets) return {};
  return {{.add_prefix_space = options_.add_prefix_space}};
}

nlohmann::ordered_json ByteLevelPostProcessor::to_json() const { return options_.to_json(); }

}  // namespace millrace
