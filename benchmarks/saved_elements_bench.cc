// How fast elements are saved, loaded, and kept in a cache on disk and a snapshot: each way writes them and reads them
// again, and what was read is compared with what was written. The files lie in the page cache when they are read.
#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/command_line/command_line.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/json/names.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"

namespace millrace {
namespace {

namespace po = boost::program_options;
using Clock = std::chrono::steady_clock;

constexpr int64_t kIds = 512;

struct Options {
  std::string folder;
  int64_t elements = 50'000;
  int64_t batch = 128;
  int threads = 0;
  bool json = false;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  po::options_description visible("options");
  // clang-format off
  visible.add_options()
      ("folder", po::value(&options.folder), "where; what it holds of an earlier run is removed")
      ("elements", whole_number(options.elements, {1, limits::kRows}), "rows of 512 int64 ids, 4 KiB")
      ("batch", whole_number(options.batch, {1, limits::kRows}), "rows in a batch when they are read")
      ("threads", whole_number(options.threads, {0, limits::kThreads}), "workers; 0: one for each core")
      ("json", "one JSON object instead of a table");
  // clang-format on
  const auto given = parse_command_line(argc, argv,
                                        {.name = "saved_elements_bench",
                                         .about = "Saves elements, loads them, and keeps them in a cache on disk and "
                                                  "in a snapshot; measures each.",
                                         .usage = "--folder FOLDER [options]"},
                                        visible);
  if (!given) return std::nullopt;
  if (options.folder.empty()) throw ErrorException(ErrorCode::kInvalidArgument, "--folder is missing");
  options.json = given->contains("json");
  return options;
}

struct Way {
  std::string name;
  double seconds = 0;
};

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) { std::filesystem::remove_all(options_.folder); }

  std::vector<Way> run() {
    measure("generate", [&] { check(rows()); });
    measure("save", [&] { (void)rows().save(path("saved"), {.start = start()}); });
    measure("load", [&] { check(Dataset::load(path("saved"))); });
    const Dataset cached = rows().cache({.directory = path("cache")});
    measure("cache_write", [&] { check(cached); });
    measure("cache_read", [&] { check(cached); });
    const Dataset snapshot = rows().snapshot(path("snapshot"));
    measure("snapshot_write", [&] { check(snapshot); });
    measure("snapshot_read", [&] { check(snapshot); });
    std::filesystem::remove_all(options_.folder);
    return ways_;
  }

 private:
  std::string path(const std::string& name) const { return options_.folder + "/" + name; }
  StartOptions start() const { return {.threads = options_.threads}; }

  // Row i holds i, i + 1, …
  Dataset rows() const {
    return Dataset::range(0, options_.elements)
        .map({.name = "ids",
              .writes = {{.name = "ids", .dtype = DType::kInt64, .shape = {kIds}}},
              .function =
                  [](const RowView& row, RowWriter& out) {
                    const auto value = row.value<int64_t>(0);
                    const std::array<int64_t, 1> shape{kIds};
                    std::span<int64_t> ids = out.make<int64_t>("ids", shape);
                    for (int64_t i = 0; i < kIds; ++i) ids[static_cast<size_t>(i)] = value + i;
                  },
              .keep_others = false});
  }

  void check(const Dataset& dataset) const {
    Pipeline pipeline = dataset.batch(options_.batch).start(start());
    int64_t next = 0;
    while (std::optional<Batch> batch = pipeline.next()) {
      const std::span<const int64_t> ids = batch->values<int64_t>("ids");
      const int64_t last = next + batch->num_rows() - 1;
      if (ids.front() != next || ids.back() != last + kIds - 1) {
        throw std::runtime_error(fmt::format("row {} came back as another one", next));
      }
      next = last + 1;
    }
    if (next != options_.elements) throw std::runtime_error(fmt::format("{} rows came back", next));
  }

  void measure(const std::string& name, const std::function<void()>& work) {
    const auto begin = Clock::now();
    work();
    ways_.push_back({name, std::chrono::duration<double>(Clock::now() - begin).count()});
  }

  const Options options_;
  std::vector<Way> ways_;
};

int run(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) return 0;
  const WorkerLimit limit(checked_threads(options->threads));
  const std::vector<Way> ways = Bench(*options).run();
  if (options->json) {
    nlohmann::ordered_json json;
    for (const Way& way : ways) json[way.name] = way.seconds;
    std::cout << json_line(json) << "\n";
    return 0;
  }
  const double mb = 1e-6 * static_cast<double>(options->elements * kIds) * sizeof(int64_t);
  fmt::print("{} rows of {} ids, {:.1f} MB\n", options->elements, kIds, mb);
  for (const Way& way : ways) {
    fmt::print("{:<15} {:>7.3f} s {:>10.0f} rows/s {:>8.1f} MB/s\n", way.name, way.seconds,
               static_cast<double>(options->elements) / way.seconds, mb / way.seconds);
  }
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::run_program("saved_elements_bench", [&] { return millrace::run(argc, argv); });
}
