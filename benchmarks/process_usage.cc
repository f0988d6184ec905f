#include "benchmarks/process_usage.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include <sys/resource.h>

namespace millrace {

ProcessUsage process_usage() {
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  // Not of rusage: there the peak begins with that of the process that started this one.
  double rss_kb = 0;
  double peak_rss_kb = 0;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) rss_kb = std::strtod(line.c_str() + 6, nullptr);
    if (line.starts_with("VmHWM:")) peak_rss_kb = std::strtod(line.c_str() + 6, nullptr);
  }
  return {.cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime),
          .rss_mb = rss_kb / 1024,
          .peak_rss_mb = peak_rss_kb / 1024};
}

}  // namespace millrace
