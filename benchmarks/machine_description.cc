#include "benchmarks/machine_description.h"

#include <fstream>
#include <thread>

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace millrace {

MachineDescription describe_machine() {
  MachineDescription machine;
  std::ifstream processors("/proc/cpuinfo");
  for (std::string line; std::getline(processors, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) machine.processor = line.substr(colon + 2);
    break;
  }
  const size_t cores = cores_of_process().size();
  machine.cores = static_cast<int>(cores > 0 ? cores : std::thread::hardware_concurrency());
  machine.memory_mb = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE) >> 20;
  utsname system = {};
  if (::uname(&system) == 0) {
    machine.system = std::string(system.sysname) + " " + system.release;
    if (machine.processor.empty()) machine.processor = system.machine;
  }
  return machine;
}

std::vector<int> cores_of_process() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  return cores;
}

}  // namespace millrace
