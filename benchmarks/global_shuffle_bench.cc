// How fast records come in one random order, against reading them one after the other: from the page cache, and from a
// storage each of whose answers takes a while. What is timed is checked: every record once, with its own content.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <sys/resource.h>

#include "benchmarks/delayed_storage.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/formats/random/keyed_permutation.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/index/index_builder.h"
#include "millrace/formats/tfrecord/index/shard_indexes.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"

namespace millrace {
namespace {

namespace po = boost::program_options;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string folder;
  int64_t records = 1000000;
  int64_t shards = 100;
  int64_t record_bytes = 1392;
  int threads = 0;
  int64_t window = GlobalShuffleOptions().window;
  int64_t merge_gap = GlobalShuffleOptions().merge_gap;
  int64_t reads_in_flight = GlobalShuffleOptions().reads_in_flight;
  int64_t latency_ms = 0;
  int64_t memory_mb = 0;
  double seconds = 10;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  po::options_description visible("options");
  // clang-format off
  visible.add_options()
      ("folder", po::value(&options.folder), "where the shards are, or are written when they are not there")
      ("records", whole_number(options.records, {1, limits::kRows}), "in all shards")
      ("shards", whole_number(options.shards, {1, 100'000}), "files")
      ("record-bytes", whole_number(options.record_bytes, {8, 1 << 30}), "of each record")
      ("threads", whole_number(options.threads, {0, limits::kThreads}), "workers; 0: one for each core")
      ("window", whole_number(options.window, {1, 1 << 24}), "GlobalShuffleOptions::window")
      ("merge-gap", whole_number(options.merge_gap, {0, int64_t{1} << 40}), "GlobalShuffleOptions::merge_gap")
      ("reads-in-flight", whole_number(options.reads_in_flight, {8, 1 << 20}),
       "GlobalShuffleOptions::reads_in_flight")
      ("latency-ms", whole_number(options.latency_ms, {0, limits::kFew}),
       "how much later each answer of the storage comes")
      ("memory-mb", whole_number(options.memory_mb, {0, limits::kMemoryMb}),
       "MiB for everything; 0: half of the machine's memory")
      ("seconds", real_number(options.seconds, {0, limits::kSeconds}),
       "most of a run, whose records are then checked as far as it came");
  // clang-format on
  const auto given = parse_command_line(
      argc, argv,
      {.name = "global_shuffle_bench",
       .about = "Measures global_shuffle against tfrecord, with as many shards as they take turns and one by one.",
       .usage = "--folder FOLDER [options]"},
      visible);
  if (!given) return std::nullopt;
  if (options.folder.empty()) throw ErrorException(ErrorCode::kInvalidArgument, "--folder is missing");
  return options;
}

std::string path_of(const Options& options, int64_t shard) {
  return fmt::format("{}/{}x{}-{:05}-of-{:05}.tfrecord", options.folder, options.records, options.record_bytes, shard,
                     options.shards);
}

// A record begins with its number; what follows is a function of it.
uint64_t word_of(uint64_t number, uint64_t word) { return word == 0 ? number : (number + word) * 0x9e3779b97f4a7c15; }

Shards make_shards(const Options& options) {
  std::filesystem::create_directories(options.folder);
  InlineExecutor executor;
  LocalStorage storage(executor);
  std::vector<std::string> paths;
  std::string record(static_cast<size_t>(options.record_bytes), '\0');
  for (int64_t shard = 0; shard < options.shards; ++shard) {
    paths.push_back(path_of(options, shard));
    if (std::filesystem::exists(index_path(paths.back()))) continue;
    RecordWriter writer(paths.back(), {});
    const int64_t end = options.records * (shard + 1) / options.shards;
    for (int64_t number = options.records * shard / options.shards; number < end; ++number) {
      for (size_t word = 0; word < record.size() / 8; ++word) {
        const uint64_t value = word_of(static_cast<uint64_t>(number), word);
        std::memcpy(record.data() + 8 * word, &value, sizeof(value));
      }
      writer.write(record);
    }
    writer.close();
    write_atomically(index_path(paths.back()), build_shard_index(storage, paths.back()).serialize());
  }
  return Shards::files(std::move(paths));
}

double cpu_seconds() {
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages >> pages;
  return pages * 4096;
}

[[noreturn]] void wrong(const std::string& what) { throw std::runtime_error("wrong records: " + what); }

// `order`: the number of the record at a position, where one is known.
void run(const Options& options, const std::string& name, const Dataset& dataset,
         const std::function<uint64_t(uint64_t)>& order) {
  constexpr int64_t kBatch = 128;
  InlineExecutor executor;
  LocalStorage local(executor);
  const std::shared_ptr<Storage> storage =
      options.latency_ms == 0 ? nullptr
                              : std::make_shared<DelayedStorage>(local, std::chrono::milliseconds(options.latency_ms));
  const WorkerLimit limit(options.threads == 0 ? static_cast<int>(std::thread::hardware_concurrency())
                                               : options.threads);
  std::vector<bool> seen(static_cast<size_t>(options.records));
  uint64_t position = 0;
  const double cpu = cpu_seconds();
  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  Pipeline pipeline = dataset.batch(kBatch).prefetch(2).start(
      {.threads = options.threads, .storage = storage, .memory_budget = options.memory_mb << 20});
  const double started = elapsed();
  double first = 0;
  while (elapsed() < options.seconds) {
    const std::optional<Batch> batch = pipeline.next();
    if (!batch) break;
    if (position == 0) first = elapsed();
    for (const std::string_view record : batch->values<std::string_view>("record")) {
      uint64_t number = 0;
      uint64_t last = 0;
      const uint64_t words = record.size() / 8;
      std::memcpy(&number, record.data(), sizeof(number));
      std::memcpy(&last, record.data() + 8 * (words - 1), sizeof(last));
      if (number >= seen.size() || seen[number]) wrong(fmt::format("{} comes twice", number));
      seen[number] = true;
      if (last != word_of(number, words - 1)) wrong(fmt::format("{} has another one's content", number));
      if (order && order(position) != number) wrong(fmt::format("{} is not at position {}", number, position));
      ++position;
    }
  }
  const double seconds = elapsed();
  const std::string state = pipeline.save().serialize();
  const Statistics statistics = pipeline.stats();
  const auto records = static_cast<double>(position);
  fmt::print(
      "{:<22} {:>10.0f} records/s {:>7.0f} MB/s  {:>5.2f} CPU s/M  start {:.0f} ms  first {:.0f} ms  state {} B  "
      "buffers at most {} MB  workers {}  of all records {:.0f}%\n",
      name, records / seconds, records * static_cast<double>(options.record_bytes) / seconds * 1e-6,
      (cpu_seconds() - cpu) / records * 1e6, started * 1e3, first * 1e3, state.size(),
      statistics.peak_buffer_bytes / 1000000, statistics.distinct_workers,
      100 * records / static_cast<double>(options.records));
  std::fflush(stdout);
}

int measure(const Options& options) {
  const Shards shards = make_shards(options);
  {
    InlineExecutor executor;
    LocalStorage storage(executor);
    const int64_t before = resident_bytes();
    const auto indexes = load_shard_indexes(storage, shards);
    fmt::print("{} records of {} bytes in {} shards; indexes {:.3f} bytes a record, the process grew by {:.1f}\n",
               options.records, options.record_bytes, options.shards,
               static_cast<double>(indexes->memory_bytes()) / static_cast<double>(options.records),
               static_cast<double>(resident_bytes() - before) / static_cast<double>(options.records));
    // Into the page cache, and once more through the checks.
    uint64_t bytes = 0;
    std::string chunk(1 << 20, '\0');
    for (const Shard& shard : shards.list()) {
      std::ifstream file(shard.path, std::ios::binary);
      while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
        bytes += static_cast<uint64_t>(file.gcount());
      }
    }
    if (bytes != indexes->num_bytes()) wrong("bytes are missing");
  }
  const GlobalShuffleOptions shuffled{
      .seed = 42, .window = options.window, .merge_gap = options.merge_gap, .reads_in_flight = options.reads_in_flight};
  const KeyedPermutation order(static_cast<uint64_t>(options.records), 42);
  for (int repetition = 0; repetition < 2; ++repetition) {
    run(options, "tfrecord, 1 by 1", Dataset::tfrecord(shards, {.cycle_length = 1}),
        [](uint64_t position) { return position; });
    run(options, "tfrecord, 16 in turn", Dataset::tfrecord(shards, {.cycle_length = 16}), nullptr);
    run(options, "global_shuffle", Dataset::global_shuffle(shards, shuffled), order);
  }
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::run_program("global_shuffle_bench", [&] {
    const auto options = millrace::parse(argc, argv);
    return options ? millrace::measure(*options) : 0;
  });
}
