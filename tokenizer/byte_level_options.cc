#include "millrace/tokenizer/byte_level_options.h"

#include <nlohmann/json.hpp>

namespace millrace {

ByteLevelOptions ByteLevelOptions::read(const JsonNode& node) {
  node.require_members_among({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  ByteLevelOptions options;
  options.add_prefix_space = node.member("add_prefix_space").boolean();
  options.trim_offsets = node.member("trim_offsets").boolean();
  if (const auto use = node.find("use_regex")) options.use_regex = use->boolean();
  return options;
}

nlohmann::ordered_json ByteLevelOptions::to_json() const {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", trim_offsets},
          {"use_regex", use_regex}};
}

}  // namespace millrace
