#include "benchmarks/floor/floor_run.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "benchmarks/bench_run.h"
#include "benchmarks/floor/line_hand_off.h"
#include "benchmarks/process_usage.h"
#include "millrace/command_line/terminal_line.h"
#include "millrace/formats/error.h"
#include "millrace/formats/json/names.h"
#include "millrace/pipeline/run/executor.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double median_of(const std::vector<FloorResult::Round>& rounds, double (*value)(const FloorResult::Round&)) {
  std::vector<double> values(rounds.size());
  std::transform(rounds.begin(), rounds.end(), values.begin(), value);
  return median(std::move(values));
}

void measure_floor(Floor& floor, double seconds, FloorResult::Round& round) {
  int64_t rows = 0;
  const double cpu_before = process_usage().cpu_seconds;
  const Clock::time_point begin = Clock::now();
  double elapsed = 0;
  do {
    floor.pass(nullptr);
    rows += floor.rows();
    elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
  } while (elapsed < seconds);
  const double cpu = process_usage().cpu_seconds - cpu_before;
  round.floor_wall_us = 1e6 * elapsed / static_cast<double>(rows);
  round.floor_cpu_us = 1e6 * cpu / static_cast<double>(rows);
}

}  // namespace

void require_same_content(Floor& floor) {
  std::vector<uint64_t> digests;
  floor.pass(&digests);
  const std::span<const uint64_t> expected = floor.expected();
  const auto refuse = [](const std::string& why) { throw ErrorException(ErrorCode::kCardinality, "floor: " + why); };
  if (digests.size() != expected.size()) {
    refuse(fmt::format("it makes {} batches, the engine {}", digests.size(), expected.size()));
  }
  for (size_t batch = 0; batch < expected.size(); ++batch) {
    if (digests[batch] == expected[batch]) continue;
    refuse(fmt::format("batch {} of {} is another one than the engine's: {:016x}, not {:016x}", batch, expected.size(),
                       digests[batch], expected[batch]));
  }
}

double FloorResult::wall_ratio() const {
  return median_of(rounds, [](const Round& round) { return round.engine_wall_us / round.floor_wall_us; });
}

double FloorResult::cpu_ratio() const {
  return median_of(rounds, [](const Round& round) { return round.engine_cpu_us / round.floor_cpu_us; });
}

FloorResult run_floor(const Dataset& dataset, const BenchOptions& options) {
  FloorResult result;
  result.workload = options.workload;
  result.threads = checked_threads(options.threads);
  const std::unique_ptr<Floor> floor = make_floor(options);
  result.compared_batches = floor->expected().size();
  require_same_content(*floor);
  for (int64_t i = 0; i < options.rounds; ++i) {
    FloorResult::Round round;
    round.line_hand_off_ns = line_hand_off_ns();
    {
      const BenchResult engine = run_bench(dataset, options);
      const auto records = static_cast<double>(engine.records);
      round.engine_wall_us = 1e6 * engine.wall_seconds / records;
      round.engine_cpu_us = 1e6 * engine.cpu_seconds / records;
    }
    TerminalLine line;
    if (line.due()) line.show(fmt::format("{}: the floor, round {} of {}", options.workload, i + 1, options.rounds));
    measure_floor(*floor, options.seconds, round);
    round.line_hand_off_ns = std::max(round.line_hand_off_ns, line_hand_off_ns());
    result.rounds.push_back(round);
  }
  return result;
}

std::string to_json(const FloorResult& result) {
  nlohmann::ordered_json json = {{"workload", result.workload},
                                 {"threads", result.threads},
                                 {"compared_batches", result.compared_batches},
                                 {"engine_over_floor", result.wall_ratio()},
                                 {"engine_over_floor_cpu", result.cpu_ratio()}};
  for (const FloorResult::Round& round : result.rounds) {
    json["rounds"].push_back({{"engine_us_wall_per_record", round.engine_wall_us},
                              {"engine_us_cpu_per_record", round.engine_cpu_us},
                              {"floor_us_wall_per_record", round.floor_wall_us},
                              {"floor_us_cpu_per_record", round.floor_cpu_us},
                              {"line_hand_off_ns", round.line_hand_off_ns}});
  }
  return json_line(json);
}

std::string to_table(const FloorResult& result) {
  using Round = FloorResult::Round;
  std::string text = fmt::format("{:<8} {:>12} {:>12} {:>8} {:>12} {:>12} {:>8} {:>8}\n", "", "engine us", "floor us",
                                 "ratio", "engine CPU", "floor CPU", "ratio", "line ns");
  const auto row = [&text](const std::string& name, const Round& round, double wall, double cpu) {
    text += fmt::format("{:<8} {:>12.4f} {:>12.4f} {:>8.2f} {:>12.4f} {:>12.4f} {:>8.2f} {:>8.0f}\n", name,
                        round.engine_wall_us, round.floor_wall_us, wall, round.engine_cpu_us, round.floor_cpu_us, cpu,
                        round.line_hand_off_ns);
  };
  for (size_t i = 0; i < result.rounds.size(); ++i) {
    const Round& round = result.rounds[i];
    row(fmt::format("round {}", i + 1), round, round.engine_wall_us / round.floor_wall_us,
        round.engine_cpu_us / round.floor_cpu_us);
  }
  const Round medians = {
      .engine_wall_us = median_of(result.rounds, [](const Round& round) { return round.engine_wall_us; }),
      .engine_cpu_us = median_of(result.rounds, [](const Round& round) { return round.engine_cpu_us; }),
      .floor_wall_us = median_of(result.rounds, [](const Round& round) { return round.floor_wall_us; }),
      .floor_cpu_us = median_of(result.rounds, [](const Round& round) { return round.floor_cpu_us; }),
      .line_hand_off_ns = median_of(result.rounds, [](const Round& round) { return round.line_hand_off_ns; })};
  row("median", medians, result.wall_ratio(), result.cpu_ratio());
  text += fmt::format("{} on {} threads, for a record; {} batches of the floor had the engine's content\n",
                      result.workload, result.threads, result.compared_batches);
  return text;
}

}  // namespace millrace
