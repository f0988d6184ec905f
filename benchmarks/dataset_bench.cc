// Measures how fast a dataset delivers its batches; see dataset_bench --help and docs/measuring.md.
#include <algorithm>
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "benchmarks/bench_options.h"
#include "benchmarks/bench_run.h"
#include "benchmarks/check_run.h"
#include "benchmarks/floor/floor_run.h"
#include "benchmarks/print_element.h"
#include "benchmarks/result_comparison.h"
#include "benchmarks/save_run.h"
#include "benchmarks/sweep_run.h"
#include "benchmarks/workloads.h"
#include "millrace/command_line/command_line.h"
#include "millrace/formats/json/names.h"
#include "millrace/pipeline/definition/pipeline_def.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"

namespace {

int most_threads(const millrace::BenchOptions& options) {
  int most = millrace::checked_threads(options.threads);
  for (const millrace::SweptOption& swept : options.sweep) {
    if (swept.key != "threads") continue;
    for (const int64_t threads : swept.values)
      most = std::max(most, millrace::checked_threads(static_cast<int>(threads)));
  }
  return most;
}

int run(int argc, char** argv) {
  using namespace millrace;
  auto options = parse_bench_options(argc, argv);
  if (!options) return 0;
  if (!options->compare.empty()) {
    const ResultComparison comparison = compare_result_files(options->compare[0], options->compare[1]);
    std::cout << (options->json ? comparison.to_json() + "\n" : comparison.to_table());
    if (comparison.slowdown <= options->max_slowdown) return 0;
    std::cerr << fmt::format("dataset_bench: a record takes {:.3f} times as long, more than {} times\n",
                             comparison.slowdown, options->max_slowdown);
    return 1;
  }
  // As many workers as asked for, also on fewer cores.
  const WorkerLimit limit(most_threads(*options));
  if (!options->sweep.empty()) {
    const SweepResult sweep = run_sweep(*options);
    std::cout << (options->json ? to_json(sweep) + "\n" : to_table(sweep));
    return 0;
  }
  const auto [dataset, remark, shuffle] = make_workload(*options);
  options->shuffle = shuffle.value_or(options->shuffle);
  std::cerr << remark;
  if (options->explain) {
    std::cout << dataset.explain(start_options(*options));
    return 0;
  }
  if (options->explain_dot) {
    std::cout << dataset.explain_dot();
    return 0;
  }
  if (!options->save_pipeline.empty()) {
    PipelineDef::of(dataset).save(options->save_pipeline);
    return 0;
  }
  if (!options->save.empty()) {
    run_save(dataset, *options);
    return 0;
  }
  if (options->check) return run_check(dataset, *options);
  if (options->print > 0) {
    const StartOptions start = start_options(*options);
    const int64_t first = start.state ? start.state->num_delivered() : 0;
    Pipeline pipeline = dataset.start(start);
    for (int64_t i = 0; i < options->print; ++i) {
      const std::optional<Batch> batch = pipeline.next();
      if (!batch) break;
      std::cout << "element " << first + i << "\n" << print_element(*batch);
    }
    return 0;
  }
  if (options->floor) {
    const FloorResult result = run_floor(dataset, *options);
    std::cout << (options->json ? to_json(result) + "\n" : to_table(result));
    return 0;
  }
  const BenchResult result = run_rounds(dataset, *options);
  std::cout << (options->json ? json_line(to_json(result)) + "\n" : to_table(result));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("dataset_bench", [&] { return run(argc, argv); });
}
