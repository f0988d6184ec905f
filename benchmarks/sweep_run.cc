#include "benchmarks/sweep_run.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "benchmarks/bench_run.h"
#include "benchmarks/swept_option.h"
#include "benchmarks/workloads.h"
#include "millrace/formats/error.h"
#include "millrace/formats/json/names.h"
#include "millrace/pipeline/stream_hash.h"

namespace millrace {
namespace {

using Values = std::vector<std::pair<std::string, int64_t>>;

std::vector<Values> combinations(const std::vector<SweptOption>& sweep) {
  std::vector<Values> all{{}};
  for (const SweptOption& option : sweep) {
    std::vector<Values> longer;
    for (const Values& values : all) {
      for (const int64_t value : option.values) {
        longer.push_back(values);
        longer.back().emplace_back(option.key, value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::string to_string(const Values& values) {
  std::string text;
  for (const auto& [key, value] : values) text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  return text;
}

// Of the first batches: as many as fill caches and shuffles of usual sizes, or all.
std::string hash_of(const Dataset& dataset, const BenchOptions& options) {
  constexpr int64_t kRows = 1 << 15;
  Pipeline pipeline = dataset.start(start_options(options));
  StreamHash hash;
  for (int64_t rows = 0; rows < kRows;) {
    const std::optional<Batch> batch = pipeline.next();
    if (!batch) break;
    hash.add(*batch);
    rows += batch->num_rows();
  }
  return hash.hex();
}

void check_streams(const std::vector<SweepResult::Run>& runs) {
  std::map<Values, const SweepResult::Run*> first;  // by the values that decide the stream
  for (const SweepResult::Run& run : runs) {
    Values deciding;
    std::copy_if(run.values.begin(), run.values.end(), std::back_inserter(deciding),
                 [](const auto& value) { return changes_stream(value.first); });
    const SweepResult::Run& other = *first.try_emplace(deciding, &run).first->second;
    if (other.stream_hash == run.stream_hash) continue;
    throw ErrorException(
        ErrorCode::kCardinality,
        fmt::format("--sweep: {} and {} must give one stream, and give {} and {}", to_string(other.values),
                    to_string(run.values), other.stream_hash, run.stream_hash));
  }
}

}  // namespace

SweepResult run_sweep(const BenchOptions& options) {
  SweepResult sweep;
  for (const Values& values : combinations(options.sweep)) {
    BenchOptions of_run = options;
    for (const auto& [key, value] : values) set_swept_option(of_run, key, value);
    const auto [dataset, remark, shuffle] = make_workload(of_run);
    of_run.shuffle = shuffle.value_or(of_run.shuffle);
    std::string hash = options.ordered ? hash_of(dataset, of_run) : "";
    sweep.runs.push_back({values, run_rounds(dataset, of_run), std::move(hash)});
  }
  check_streams(sweep.runs);
  const auto best = std::min_element(sweep.runs.begin(), sweep.runs.end(), [](const auto& a, const auto& b) {
    return a.result.us_wall_per_record() < b.result.us_wall_per_record();
  });
  sweep.best = static_cast<size_t>(best - sweep.runs.begin());
  return sweep;
}

std::string to_json(const SweepResult& sweep) {
  nlohmann::ordered_json json = {{"best", sweep.best}, {"runs", nlohmann::ordered_json::array()}};
  for (const SweepResult::Run& run : sweep.runs) {
    nlohmann::ordered_json values;
    for (const auto& [key, value] : run.values) values[key] = value;
    json["runs"].push_back(
        {{"values", std::move(values)}, {"stream_hash", run.stream_hash}, {"result", to_json(run.result)}});
  }
  return json_line(json);
}

std::string to_table(const SweepResult& sweep) {
  std::string text;
  for (const auto& [key, value] : sweep.runs.front().values) text += fmt::format("{:>12} ", key);
  text += fmt::format("{:>14} {:>10} {:>11} {:>11} {:>12} {:>12} {:>9}  {}\n", "records/s", "MB/s", "us wall", "us CPU",
                      "next() p99", "first batch", "÷ best", "limited by");
  const double best = sweep.runs[sweep.best].result.us_wall_per_record();
  for (size_t i = 0; i < sweep.runs.size(); ++i) {
    const BenchResult& result = sweep.runs[i].result;
    for (const auto& [key, value] : sweep.runs[i].values) text += fmt::format("{:>12} ", value);
    text += fmt::format("{:>14.0f} {:>10.1f} {:>11.4f} {:>11.4f} {:>9.1f} us {:>9.1f} ms {:>7.2f}{}  {}\n",
                        static_cast<double>(result.records) / result.wall_seconds,
                        1e-6 * static_cast<double>(result.bytes) / result.wall_seconds, result.us_wall_per_record(),
                        result.us_cpu_per_record(), result.latency.p99_us, result.first_batch_ms,
                        result.us_wall_per_record() / best, i == sweep.best ? " *" : "  ", result.bottleneck);
  }
  const std::vector<BenchResult::Round>& rounds = sweep.runs.front().result.rounds;
  const bool compared = !sweep.runs.front().stream_hash.empty();
  return text + fmt::format("{}, {} of each; {}\n", sweep.runs.front().result.options.workload,
                            rounds.empty() ? "one run" : fmt::format("the median of {} runs", rounds.size()),
                            compared ? "one stream for all values of options that do not change it"
                                     : "the streams are not compared, they have no order");
}

}  // namespace millrace
