#include "benchmarks/floor/floor.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "benchmarks/bench_run.h"
#include "benchmarks/floor/example_writer.h"
#include "benchmarks/floor/mlm_writer.h"
#include "benchmarks/floor/record_writer.h"
#include "benchmarks/floor/shard_floor.h"
#include "benchmarks/workload_features.h"
#include "benchmarks/workloads.h"
#include "command_line/terminal_line.h"
#include "formats/error.h"
#include "pipeline/executor.h"

namespace millrace {
namespace {

Schedule schedule_of(BenchOptions options) {
  options.cache = false;  // the order is the same, and rows from memory do not tell which records they are
  TerminalLine line;
  return make_schedule(make_workload(options).dataset, start_options(options), [&line](size_t rows) {
    if (line.due()) line.show(fmt::format("finding the order of the records for the floor: {} rows", rows));
  });
}

std::unique_ptr<Floor> shard_floor(const BenchOptions& options, bool copies, const BatchWriting& writing) {
  return std::make_unique<ShardFloor>(schedule_of(options), copies, writing, checked_threads(options.threads));
}

std::unique_ptr<Floor> read_floor(const BenchOptions& options) {
  return shard_floor(options, /*copies=*/false, record_writing());
}

std::unique_ptr<Floor> mlm_floor(const BenchOptions& options) {
  return shard_floor(options, /*copies=*/true, mlm_writing(options.seed));
}

std::unique_ptr<Floor> quest_floor(const BenchOptions& options) {
  if (options.cache) throw ErrorException(ErrorCode::kInvalidArgument, "quest --cache has no floor");
  return shard_floor(options, /*copies=*/true, example_writing(quest_features()));
}

struct NamedFloor {
  std::string_view name;
  std::unique_ptr<Floor> (*make)(const BenchOptions& options);
};
constexpr std::array kFloors = {NamedFloor{"read", read_floor}, NamedFloor{"mlm", mlm_floor},
                                NamedFloor{"quest", quest_floor}};

}  // namespace

std::unique_ptr<Floor> make_floor(const BenchOptions& options) {
  std::string names;
  for (const NamedFloor& floor : kFloors) {
    if (floor.name == options.workload) return floor.make(options);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", floor.name);
  }
  throw ErrorException(
      ErrorCode::kInvalidArgument,
      fmt::format("{} has no floor; these have: {}",
                  options.pipeline.empty() ? "the workload " + options.workload : "--pipeline", names));
}

}  // namespace millrace
