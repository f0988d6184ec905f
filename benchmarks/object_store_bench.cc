// How fast shards come from an object store, and objects into it, whose latency and rates are known: a server of
// objects in memory, in a process of its own, that keeps to rules. What is timed is compared with the same records from
// local files.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "benchmarks/object_store/child_process.h"
#include "benchmarks/object_store/store_bench_options.h"
#include "benchmarks/object_store/store_content.h"
#include "benchmarks/object_store/store_reader.h"
#include "benchmarks/object_store/store_server.h"
#include "benchmarks/object_store/store_writer.h"
#include "millrace/command_line/command_line.h"

namespace millrace {
namespace {

using Measured = std::map<std::string, double>;

// Prints figures as they come.
class Table {
 public:
  explicit Table(bool csv) : csv_(csv) {
    if (csv_) {
      fmt::print("part,latency_ms,figure,value,bar\n");
    } else {
      fmt::print("{:<14}{:>8}  {:<44}{:>12}  {}\n", "part", "L, ms", "figure", "", "asked");
    }
  }
  // `latency` -1: without a server.
  void add(const std::string& part, int64_t latency, const std::string& figure, double value,
           const std::string& bar = "") const {
    const std::string at = latency < 0 ? "" : std::to_string(latency);
    if (csv_) {
      fmt::print("{},{},{},{:.6g},{}\n", part, at, figure, value, bar);
    } else {
      fmt::print("{:<14}{:>8}  {:<44}{:>12.4g}  {}\n", part, at.empty() ? "local" : at, figure, value, bar);
    }
    std::fflush(stdout);
  }

 private:
  const bool csv_;
};

class Bench {
 public:
  explicit Bench(StoreBenchOptions options) : options_(std::move(options)), table_(options_.csv) {}
  ~Bench() {
    std::error_code ignored;
    if (!list_.empty()) std::filesystem::remove(list_, ignored);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void run() {
    for (const std::string& part : options_.parts) {
      if (part == "read") measure_records();
      if (part == "bytes") measure_bytes();
      if (part == "first") measure_first();
      if (part == "fingerprints") measure_fingerprints();
      if (part == "stalls") measure_stalls();
      if (part == "faults") measure_faults();
      if (part == "cache") measure_cache();
      if (part == "write") measure_writing();
    }
  }

 private:
  std::vector<std::string> arguments(const StoreRules& rules) const {
    std::vector<std::string> words;
    const auto add = [&](const char* name, const auto& value) { words.push_back(fmt::format("--{}={}", name, value)); };
    add("latency-ms", rules.latency_ms);
    add("connection-mb", rules.connection_mb);
    add("all-mb", rules.all_mb);
    add("stalled", rules.stalled);
    add("failing", rules.failing);
    add("shards", options_.content.shards);
    add("shard-mb", options_.shard_mb);
    add("record-bytes", options_.content.record_bytes);
    add("small", options_.content.small);
    add("threads", options_.run.threads);
    add("cycle-length", options_.run.cycle_length);
    add("part-mb", options_.part_mb);
    add("in-flight", options_.in_flight);
    return words;
  }

  // What a reader of the server measured, with what the server counted as `server_…`.
  // `port`: 0: any.
  Measured against(const StoreRules& rules, std::vector<std::string> reader, int port = 0) const {
    std::vector<std::string> serving = arguments(rules);
    serving.emplace_back("--serve");
    serving.push_back(fmt::format("--port={}", port));
    ChildProcess server(std::move(serving));
    const std::string endpoint = server.line();
    reader.push_back("--endpoint=" + endpoint);
    for (std::string& word : arguments(rules)) reader.push_back(std::move(word));
    Measured measured = ChildProcess(std::move(reader)).finish();
    for (const auto& [name, value] : server.finish()) measured["server_" + name] = value;
    measured["server_port"] = std::atof(endpoint.substr(endpoint.rfind(':') + 1).c_str());
    return measured;
  }
  std::vector<std::string> records_reader(const std::string& pattern, int64_t memory_mb, int64_t batches = 0) const {
    return {"--child=records", "--pattern=" + pattern, fmt::format("--memory-mb={}", memory_mb),
            fmt::format("--batches={}", batches)};
  }
  // The shards of which a part reads that many MiB.
  std::string pattern(int64_t mb = 0) const {
    const int64_t shards = mb == 0 ? options_.content.shards : std::max<int64_t>(mb / options_.shard_mb, 1);
    if (shards >= options_.content.shards) return "s3://bench/train/*";
    list_ = fmt::format("{}/object_store_bench-{}.txt", options_.folder, ::getpid());
    std::ofstream file(list_);
    for (int64_t i = 0; i < shards; ++i) file << fmt::format("s3://bench/train/part-{:05}.tfrecord\n", i);
    return "@" + list_;
  }

  StoreRules rules(int64_t latency) const {
    StoreRules rules = options_.rules;
    rules.latency_ms = latency;
    return rules;
  }

  const Measured& local() {
    if (local_.empty()) {
      const StoreContent content(options_.content);
      const LocalShards shards(content, options_.folder);
      std::vector<std::string> reader = records_reader(shards.pattern(), options_.run.memory_mb);
      for (std::string& word : arguments(options_.rules)) reader.push_back(std::move(word));
      local_ = ChildProcess(reader).finish();
    }
    return local_;
  }

  static double megabytes(const Measured& measured) { return measured.at("bytes") * 1e-6 / measured.at("seconds"); }
  static double cpu_per_gb(const Measured& measured) {
    return measured.at("cpu_seconds") / (measured.at("bytes") * 1e-9);
  }
  static void need_same(const Measured& measured, const Measured& expected) {
    for (const char* figure : {"records", "bytes", "hash"}) {
      if (measured.at(figure) == expected.at(figure)) continue;
      throw std::runtime_error(
          fmt::format("the records are others than those of the local files: {} is {:.0f}, not "
                      "{:.0f}",
                      figure, measured.at(figure), expected.at(figure)));
    }
  }

  // The rules allow `N` requests of `P` bytes no more than this: min(all, N cP / (P + cL)), with as many requests in
  // flight as the engine has connections.
  double allowed(int64_t latency) const {
    constexpr double kConnections = 64;
    const double part = static_cast<double>(options_.part_mb << 20);
    const double rate = 1e6 * options_.rules.connection_mb;
    const double all = options_.rules.all_mb > 0 ? options_.rules.all_mb : HUGE_VAL;
    const double one = rate > 0 ? rate * part / (part + rate * 1e-3 * static_cast<double>(latency))
                                : part / (1e-3 * static_cast<double>(latency));
    return std::min(all, kConnections * one * 1e-6);
  }

  void measure_records() {
    table_.add("read", -1, "MB/s", megabytes(local()));
    table_.add("read", -1, "CPU s/GB", cpu_per_gb(local()));
    table_.add("read", -1, "peak MiB", local().at("peak_mb"));
    for (const int64_t latency : options_.latencies) {
      const Measured measured = against(rules(latency), records_reader(pattern(), options_.run.memory_mb));
      need_same(measured, local());
      table_.add("read", latency, "MB/s", megabytes(measured));
      table_.add("read", latency, "of what the rules allow", megabytes(measured) / allowed(latency), ">= 0.90");
      table_.add("read", latency, "CPU s/GB", cpu_per_gb(measured));
      table_.add("read", latency, "CPU s/GB of the server",
                 measured.at("server_cpu_seconds") / (measured.at("server_bytes") * 1e-9));
      table_.add("read", latency, "peak MiB", measured.at("peak_mb"));
      table_.add("read", latency, "MiB above local", measured.at("peak_mb") - local().at("peak_mb"));
      table_.add("read", latency, "requests", measured.at("server_requests"));
    }
  }

  void measure_bytes() {
    for (const int64_t latency : options_.latencies) {
      const Measured measured = against(rules(latency), {"--child=bytes"});
      table_.add("bytes", latency, "MB/s", megabytes(measured));
      table_.add("bytes", latency, "of what the rules allow", megabytes(measured) / allowed(latency));
      table_.add("bytes", latency, "CPU s/GB", cpu_per_gb(measured));
      table_.add("bytes", latency, "peak MiB", measured.at("peak_mb"));
    }
  }

  void measure_first() {
    for (const int64_t latency : options_.latencies) {
      if (latency == 0) continue;
      const double trip = 1e-3 * static_cast<double>(latency);
      const auto measure = [&](const std::string& what, const std::string& shards) {
        const Measured measured = against(rules(latency), records_reader(shards, options_.run.memory_mb, 1));
        const double seconds = measured.at("first_seconds");
        table_.add("first", latency, what + ", ms", 1e3 * seconds);
        table_.add("first", latency, what + ", round trips more than local",
                   (seconds - local().at("first_seconds")) / trip, "<= 3");
      };
      measure("first batch, listed", pattern());
      measure("first batch, by a list", pattern(options_.content.shards * options_.shard_mb - 1));
    }
  }

  void measure_fingerprints() {
    for (const int64_t latency : options_.latencies) {
      const Measured measured = against(rules(latency), {"--child=fingerprints"});
      table_.add("fingerprints", latency, fmt::format("s for {:.0f}", measured.at("shards")), measured.at("seconds"),
                 latency == 50 && options_.content.small == 10'000 ? "<= 8" : "");
      if (latency > 0) {
        const double pages = std::ceil(measured.at("shards") / 1000);
        table_.add("fingerprints", latency, "listing, round trips a page",
                   measured.at("list_seconds") * 1e3 / (pages * static_cast<double>(latency)), "<= 1.1");
      }
      table_.add("fingerprints", latency, "requests for each", measured.at("server_requests") / measured.at("shards"));
      table_.add("fingerprints", latency, "CPU s", measured.at("cpu_seconds"));
    }
  }

  // Of 512 MiB by small reads, so that there are enough for their percentiles.
  void measure_stalls() {
    const int64_t latency = middle_latency();
    const auto measure = [&](double share) {
      StoreRules rules = this->rules(latency);
      rules.stalled = share;
      std::vector<std::string> reader = records_reader(pattern(512), 256);
      reader.emplace_back("--time-reads");
      return against(rules, std::move(reader));
    };
    const Measured before = measure(0);
    const Measured measured = measure(0.01);
    need_same(measured, before);
    table_.add("stalls", latency, "MB/s without", megabytes(before));
    table_.add("stalls", latency, "MB/s with 1% of requests 5 s later", megabytes(measured));
    table_.add("stalls", latency, "p99.9 of a read without, ms", before.at("read_p999_ms"));
    table_.add("stalls", latency, "p99.9 of a read with, ms", measured.at("read_p999_ms"));
    table_.add("stalls", latency, "p99.9 of a read, with over without",
               measured.at("read_p999_ms") / before.at("read_p999_ms"), "<= 3");
    table_.add("stalls", latency, "p99.9 of waiting in next() without, ms", before.at("wait_p999_ms"));
    table_.add("stalls", latency, "p99.9 of waiting in next() with, ms", measured.at("wait_p999_ms"));
    table_.add("stalls", latency, "bytes sent, with over without",
               measured.at("server_bytes") / before.at("server_bytes"), "<= 1.05");
  }

  void measure_faults() {
    const int64_t latency = middle_latency();
    const auto measure = [&](double share) {
      StoreRules rules = this->rules(latency);
      rules.failing = share;
      return against(rules, records_reader(pattern(), options_.run.memory_mb));
    };
    const Measured before = measure(0);
    const Measured measured = measure(0.05);
    need_same(before, local());
    need_same(measured, local());
    table_.add("faults", latency, "MB/s without", megabytes(before));
    table_.add("faults", latency, "MB/s with 5% of requests failing", megabytes(measured));
    table_.add("faults", latency, "speed, with over without", megabytes(measured) / megabytes(before), ">= 0.8");
    table_.add("faults", latency, "requests, with over without",
               measured.at("server_requests") / before.at("server_requests"));
  }

  // Three runs of all records: without a cache on disk, with an empty one, with the one that is full then; it lies
  // where the local files lie.
  void measure_cache() {
    const int64_t latency = middle_latency();
    const std::string folder = fmt::format("{}/object_store_bench-{}.cache", options_.folder, ::getpid());
    const std::shared_ptr<void> removed(nullptr, [&](void*) { std::filesystem::remove_all(folder); });
    // Objects of another endpoint are others.
    const auto measure = [&](bool is_cached, double port) {
      std::vector<std::string> reader = records_reader(pattern(), options_.run.memory_mb);
      if (is_cached) reader.push_back("--cache-dir=" + folder);
      Measured measured = against(rules(latency), std::move(reader), static_cast<int>(port));
      need_same(measured, local());
      return measured;
    };
    const Measured without = measure(false, 0);
    const Measured first = measure(true, 0);
    const Measured second = measure(true, first.at("server_port"));
    table_.add("cache", latency, "MB/s without", megabytes(without));
    table_.add("cache", latency, "MB/s, the first time", megabytes(first));
    table_.add("cache", latency, "the first time over without", megabytes(first) / megabytes(without), ">= 0.97");
    table_.add("cache", latency, "CPU s/GB, the first time", cpu_per_gb(first));
    table_.add("cache", latency, "MiB above without", first.at("peak_mb") - without.at("peak_mb"));
    table_.add("cache", latency, "MB/s, the second time", megabytes(second));
    table_.add("cache", latency, "the second time over local files", megabytes(second) / megabytes(local()), ">= 0.95");
    table_.add("cache", latency, "CPU s/GB, the second time", cpu_per_gb(second));
    table_.add("cache", latency, "CPU s/GB, local files", cpu_per_gb(local()));
    table_.add("cache", latency, "MiB above local", second.at("peak_mb") - local().at("peak_mb"));
    table_.add("cache", latency, "share from the cache, the second time",
               second.at("cached") / (second.at("cached") + second.at("server_bytes")));
    table_.add("cache", latency, "requests, the second time", second.at("server_requests"));
  }

  // One object, and folders of some files and of many.
  void measure_writing() {
    for (const int64_t latency : options_.latencies) {
      const auto measure = [&](const std::string& what, const std::string& child, int64_t files) {
        const Measured measured =
            against(rules(latency), {"--child=" + child, fmt::format("--written-mb={}", options_.written_mb),
                                     fmt::format("--files={}", files), "--folder=" + options_.folder});
        // Beside the files there is COMMIT.
        const double more = measured.at("server_bytes_taken") - measured.at("bytes");
        const bool is_same = more == 0 && measured.at("server_sum_taken") == measured.at("sum");
        if (child == "object" ? !is_same : more < 0 || more > 200.0 * static_cast<double>(files + 1)) {
          throw std::runtime_error(fmt::format("{:.0f} bytes were sent, and {:.0f} came", measured.at("bytes"),
                                               measured.at("server_bytes_taken")));
        }
        table_.add("write", latency, what + ", MB/s", megabytes(measured));
        table_.add("write", latency, what + ", of what the rules allow", megabytes(measured) / allowed(latency),
                   child == "object" ? ">= 0.90" : "");
        table_.add("write", latency, what + ", CPU s/GB", cpu_per_gb(measured));
        table_.add("write", latency, what + ", peak MiB", measured.at("peak_mb"));
      };
      measure("object", "object", 1);
      measure("folder of 4 files", "folder", 4);
      measure("folder of 256 files", "folder", 256);
    }
  }

  int64_t middle_latency() const { return options_.latencies[options_.latencies.size() / 2]; }

  const StoreBenchOptions options_;
  const Table table_;
  Measured local_;            // of all shards; empty: not read yet
  mutable std::string list_;  // a file with names of shards
};

void print(const Figures& figures) {
  for (const auto& [name, value] : figures) fmt::print("{} {:.17g}\n", name, value);
}

int run(const StoreBenchOptions& options) {
  if (options.serves) {
    serve_store(StoreContent(options.content), options.rules, static_cast<uint16_t>(options.port));
    return 0;
  }
  if (!options.endpoint.empty()) use_store(options.endpoint);
  if (options.child == "records") {
    print(read_records(options.run));
  } else if (options.child == "bytes") {
    print(read_bytes(StoreContent(options.content), options.part_mb << 20, options.in_flight));
  } else if (options.child == "object") {
    print(write_object(options.written_mb << 20));
  } else if (options.child == "folder") {
    print(write_folder(options.written_mb << 20, options.files, options.folder));
  } else if (options.child == "fingerprints") {
    print(read_fingerprints(StoreContent(options.content)));
  } else {
    Bench(options).run();
  }
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::run_program("object_store_bench", [&] {
    const auto options = millrace::parse_store_bench_options(argc, argv);
    return options ? millrace::run(*options) : 0;
  });
}
