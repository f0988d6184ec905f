#include "benchmarks/object_store/store_bench_options.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "millrace/command_line/command_line.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"

namespace millrace {
namespace {

namespace po = boost::program_options;

constexpr const char* kParts[] = {"read", "bytes", "first", "fingerprints", "stalls", "faults", "cache", "write"};

[[noreturn]] void refuse(const std::string& what) { throw ErrorException(ErrorCode::kInvalidArgument, what); }

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    words.emplace_back(text.substr(0, text.find(',')));
    text.remove_prefix(std::min(text.size(), words.back().size() + 1));
  }
  return words;
}

}  // namespace

std::optional<StoreBenchOptions> parse_store_bench_options(int argc, char** argv) {
  StoreBenchOptions options;
  std::string parts;
  std::string latencies;
  po::options_description visible("options");
  // clang-format off
  visible.add_options()
      ("parts", po::value(&parts), "of read, bytes, first, fingerprints, stalls, faults, cache, write, with commas; all")
      ("latency-ms", po::value(&latencies), "to the first byte of an answer, with commas; 20,50,100")
      ("connection-mb", real_number(options.rules.connection_mb, {0, 1e6}), "MB/s of one connection; 0: any")
      ("all-mb", real_number(options.rules.all_mb, {0, 1e6}), "MB/s of all connections; 0: any")
      ("shards", whole_number(options.content.shards, {1, 100'000}), "objects that are read")
      ("shard-mb", whole_number(options.shard_mb, {1, 1 << 20}), "MiB of each")
      ("record-bytes", whole_number(options.content.record_bytes, {1, 1 << 30}), "of each record")
      ("small", whole_number(options.content.small, {1, 100'000}), "further objects, for fingerprints")
      ("memory-mb", whole_number(options.run.memory_mb, {1, limits::kMemoryMb}), "MiB for everything of a pipeline")
      ("threads", whole_number(options.run.threads, {0, limits::kThreads}), "of a pipeline; 0: one for each core")
      ("cycle-length", whole_number(options.run.cycle_length, {1, limits::kFew}), "shards that take turns")
      ("part-mb", whole_number(options.part_mb, {1, 1024}), "bytes: MiB that a request asks for")
      ("in-flight", whole_number(options.in_flight, {1, 1024}), "bytes: requests at a time")
      ("written-mb", whole_number(options.written_mb, {1, 1 << 20}), "write: MiB of an object, and of a folder")
      ("folder", po::value(&options.folder), "where the same shards are local files for the time of the run")
      ("csv", "a line for each figure: part,latency_ms,figure,value,bar")
      ("serve",
       "only serves, by the first latency and the rates, until standard input ends")
      ("port", whole_number(options.port, {0, 65535}), "serve: of 127.0.0.1; 0: a free one")
      ("stalled", real_number(options.rules.stalled, {0, 1}), "serve: share of requests whose answers come 5 s later")
      ("failing", real_number(options.rules.failing, {0, 1}), "serve: share of requests that fail");
  po::options_description hidden;
  hidden.add_options()
      ("child", po::value(&options.child), "")
      ("endpoint", po::value(&options.endpoint), "")
      ("pattern", po::value(&options.run.pattern), "")
      ("batches", whole_number(options.run.batches, {0, limits::kCount}), "")
      ("cache-dir", po::value(&options.run.cache), "")
      ("files", whole_number(options.files, {1, 100'000}), "")
      ("time-reads", "");
  // clang-format on
  const auto given = parse_command_line(
      argc, argv,
      {.name = "object_store_bench",
       .about = "Measures reading from an object store: a server on this machine with the latency and rates that are "
                "asked for.",
       .usage = "[options]"},
      visible, {}, hidden);
  if (!given) return std::nullopt;
  options.csv = given->count("csv") > 0;
  options.serves = given->count("serve") > 0;
  options.run.times_reads = given->count("time-reads") > 0;
  options.parts = words_of(parts);
  if (parts.empty()) options.parts.assign(std::begin(kParts), std::end(kParts));
  for (const std::string& part : options.parts) {
    if (std::ranges::find(kParts, part) == std::end(kParts)) refuse(fmt::format("--parts: there is no '{}'", part));
  }
  if (!latencies.empty()) options.latencies.clear();
  for (const std::string& word : words_of(latencies)) {
    char* end = nullptr;
    const long latency = std::strtol(word.c_str(), &end, 10);
    if (*end != '\0' || latency < 0 || latency > 60'000) refuse(fmt::format("--latency-ms: '{}' is none", word));
    options.latencies.push_back(latency);
  }
  options.content.shard_bytes = options.shard_mb << 20;
  options.rules.latency_ms = options.latencies.front();
  return options;
}

}  // namespace millrace
