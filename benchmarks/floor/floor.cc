#include "benchmarks/floor/floor.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "benchmarks/bench_run.h"
#include "benchmarks/floor/cached_quest_floor.h"
#include "benchmarks/floor/example_writer.h"
#include "benchmarks/floor/image_floor.h"
#include "benchmarks/floor/jpeg_filler.h"
#include "benchmarks/floor/mlm_writer.h"
#include "benchmarks/floor/noop_floor.h"
#include "benchmarks/floor/record_writer.h"
#include "benchmarks/floor/shard_floor.h"
#include "benchmarks/floor/tensor_filler.h"
#include "benchmarks/floor/token_writer.h"
#include "benchmarks/workload_features.h"
#include "benchmarks/workloads.h"
#include "millrace/command_line/terminal_line.h"
#include "millrace/formats/error.h"
#include "millrace/pipeline/run/executor.h"

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

std::unique_ptr<Floor> memory_floor(const BenchOptions& options, MemoryFloor::Work work) {
  return std::make_unique<MemoryFloor>(std::move(work), checked_threads(options.threads));
}

std::unique_ptr<Floor> quest_floor(const BenchOptions& options) {
  if (options.cache) return memory_floor(options, cached_quest_work(schedule_of(options)));
  return shard_floor(options, /*copies=*/true, example_writing(quest_features()));
}

// Rows wait for others of their length, but so shortly that they may stay where they were read.
std::unique_ptr<Floor> bucket_floor(const BenchOptions& options) {
  return shard_floor(options, /*copies=*/false, token_writing());
}

std::unique_ptr<Floor> pad_floor(const BenchOptions& options) {
  return shard_floor(options, /*copies=*/true, token_writing());
}

std::unique_ptr<Floor> image_floor(const BenchOptions& options, const RowFilling& filling) {
  return std::make_unique<ImageFloor>(schedule_of(options), filling, checked_threads(options.threads));
}

std::unique_ptr<Floor> images_floor(const BenchOptions& options) { return image_floor(options, tensor_filling()); }

std::unique_ptr<Floor> jpeg_floor(const BenchOptions& options) {
  return image_floor(options, jpeg_filling(options.seed, /*scaled=*/false));
}

std::unique_ptr<Floor> jpeg_scaled_floor(const BenchOptions& options) {
  return image_floor(options, jpeg_filling(options.seed, /*scaled=*/true));
}

std::unique_ptr<Floor> noop_floor(const BenchOptions& options) { return memory_floor(options, noop_work(options)); }

struct NamedFloor {
  std::string_view name;
  std::unique_ptr<Floor> (*make)(const BenchOptions& options);
};
constexpr std::array kFloors = {NamedFloor{"read", read_floor},
                                NamedFloor{"mlm", mlm_floor},
                                NamedFloor{"mlm_gz", mlm_floor},
                                NamedFloor{"quest", quest_floor},
                                NamedFloor{"bucket", bucket_floor},
                                NamedFloor{"pad", pad_floor},
                                NamedFloor{"images", images_floor},
                                NamedFloor{"jpeg", jpeg_floor},
                                NamedFloor{"jpeg_scaled", jpeg_scaled_floor},
                                NamedFloor{"noop", noop_floor},
                                NamedFloor{"noop_rows", noop_floor}};

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
