#pragma once

#include <string>
#include <vector>

namespace millrace {

/// How a model that others have written is read.
struct PretrainedOptions {
  /// Fields of config.json that are passed over, although they are not known and have a value. Default: none
  std::vector<std::string> ignored_config_fields = {};
};

}  // namespace millrace
