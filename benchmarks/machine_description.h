#pragma once

#include <cstdint>
#include <string>

namespace millrace {

/// What a measurement was taken on.
struct MachineDescription {
  std::string processor;  ///< as the system names it
  int cores = 0;          ///< that this process may use
  int64_t memory_mb = 0;  ///< MiB
  std::string system;     ///< kernel and its release
};

[[nodiscard]] MachineDescription describe_machine();

}  // namespace millrace
