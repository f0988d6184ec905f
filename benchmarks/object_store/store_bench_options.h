#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/object_store/store_content.h"
#include "benchmarks/object_store/store_reader.h"
#include "benchmarks/object_store/store_server.h"

namespace millrace {

/// The command line of `object_store_bench`, and of its processes.
struct StoreBenchOptions {
  std::vector<std::string> parts = {};
  std::vector<int64_t> latencies{20, 50, 100};
  StoreRules rules = {};  ///< of --serve, and the rates of all
  ContentSize content = {};
  RecordsRun run = {};
  int64_t shard_mb = 64;
  int64_t part_mb = 8;
  int64_t in_flight = 16;
  int64_t written_mb = 1024;
  int64_t files = 1;
  int64_t port = 0;
  std::string folder = "/dev/shm";
  std::string endpoint = {};
  std::string child = {};
  bool serves = false;
  bool csv = false;
};

/// Parses it; nothing when `--help` was asked for and printed. Throws `kInvalidArgument` with one line.
[[nodiscard]] std::optional<StoreBenchOptions> parse_store_bench_options(int argc, char** argv);

}  // namespace millrace
