#pragma once

namespace millrace {

/// What this process has used so far.
struct ProcessUsage {
  double cpu_seconds = 0;  ///< user and system, all threads
  double rss_mb = 0;       ///< MiB resident now
  double peak_rss_mb = 0;  ///< MiB resident at most
};

[[nodiscard]] ProcessUsage process_usage();

}  // namespace millrace
