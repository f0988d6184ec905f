#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

/// What a measurement was taken on.
struct MachineDescription {
  std::string processor;  ///< as the system names it
  int cores = 0;          ///< that this process may use
  int64_t memory_mb = 0;  ///< MiB
  std::string system;     ///< kernel and its release
};

[[nodiscard]] MachineDescription describe_machine();
/// Numbers of the cores that this process may use; none where the system does not say.
[[nodiscard]] std::vector<int> cores_of_process();

}  // namespace millrace
