#include "benchmarks/process_usage.h"

#include <fstream>

#include <sys/resource.h>
#include <unistd.h>

namespace millrace {

ProcessUsage process_usage() {
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  constexpr double kMiB = 1 << 20;
  double all_pages = 0;
  double resident_pages = 0;
  std::ifstream("/proc/self/statm") >> all_pages >> resident_pages;
  return {.cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime),
          .rss_mb = resident_pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / kMiB,
          .peak_rss_mb = static_cast<double>(used.ru_maxrss) / 1024};
}

}  // namespace millrace
