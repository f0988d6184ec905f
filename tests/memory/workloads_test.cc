// Memory that ends in the middle of a run of dataset_bench: every large allocation and many small ones, each of which
// finds no memory once. Such a run says so in one line, or does without; no signal ends it, and it does not hang.
#include "benchmarks/workloads.h"

#include <filesystem>
#include <iostream>
#include <map>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "benchmarks/bench_options.h"
#include "benchmarks/bench_run.h"
#include "millrace/command_line/command_line.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/benchmarks/workload_shards.h"
#include "tests/memory/failing_runs.h"
#include "tests/support/soak.h"
#include "tests/support/temporary_folder.h"

namespace millrace::workloads_test {
namespace {

using test::AllocationKind;
using test::FailingRun;
using test::FailurePoint;
using test::run_with_failures;

// Two epochs are the 20 batches of most: nothing that was lost in one is still on its way at the end.
constexpr int kRecords = 40;

struct Case {
  const char* name;
  const char* workload;
  std::string (*record)(int) = nullptr;              // of its shards, if it reads some
  std::vector<std::string> more = {"--batch", "4"};  // options
  Compression compression = Compression::kNone;
  int num_records = kRecords;
  bool saves = false;
  bool indexed = false;

  friend void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }
};

class OutOfMemory : public testing::TestWithParam<Case> {};

int run_bench_program(const std::vector<std::string>& given) {
  return run_program("dataset_bench", [&] {
    std::vector<std::string> arguments = given;
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    auto options = parse_bench_options(static_cast<int>(argv.size()), argv.data());
    const WorkerLimit limit(options->threads);
    const auto [dataset, remark, shuffle] = make_workload(*options);
    options->shuffle = shuffle.value_or(options->shuffle);
    if (!options->save.empty()) {
      const std::string saved = fmt::format("{}-{}", options->save, ::getpid());
      const SaveReport report = dataset.take(*options->batches).save(saved, {.start = start_options(*options)});
      std::filesystem::remove_all(saved);
      std::cout << report.elements << " elements, " << report.bytes << " bytes\n";
      return 0;
    }
    std::cout << *run_rounds(dataset, *options).stream_hash << "\n";
    return 0;
  });
}

std::vector<FailurePoint> points_of(const FailingRun& right) {
  constexpr int64_t kSample = 8;
  constexpr int64_t kRandom = 2000;
  const CounterRng rng(test::seed_of_this_run(), operator_id("allocations"));
  std::vector<FailurePoint> points;
  for (int64_t i = 0; i < (test::soaking() ? right.large : kSample); ++i) {
    const int64_t number = test::soaking() ? i : i * right.large / kSample;
    points.push_back({AllocationKind::kLarge, number + 1});
  }
  for (int64_t i = 0; i < kSample; ++i) {
    points.push_back({AllocationKind::kLarge, i * right.large / kSample + 1, /*and_later=*/true});
  }
  for (int64_t i = 0; i < (test::soaking() ? kRandom : kSample); ++i) {
    const uint64_t number = uniform_below(rng.bits(0, static_cast<uint64_t>(i)), static_cast<uint64_t>(right.small));
    points.push_back({AllocationKind::kSmall, static_cast<int64_t>(number) + 1});
  }
  return points;
}

TEST_P(OutOfMemory, IsOneLineAndNeverASignalOrAHang) {
  const Case& tested = GetParam();
  const test::TemporaryFolder folder;
  std::vector<std::string> arguments = {"dataset_bench", tested.workload, "--batches", "20", "--threads", "2"};
  if (tested.saves) {
    arguments.insert(arguments.end(), {"--save", folder.path("saved")});
  } else {
    arguments.emplace_back("--no-display");
  }
  if (tested.record != nullptr) {
    test::write_workload_shards(folder.path(), tested.record, tested.compression, tested.num_records);
    if (tested.indexed) test::index_workload_shards(folder.path("*.tfrecord"));
    arguments.insert(arguments.end(), {"--shards", folder.path("*.tfrecord")});
  }
  arguments.insert(arguments.end(), tested.more.begin(), tested.more.end());
  const auto program = [&] { return run_bench_program(arguments); };
  const FailingRun right = run_with_failures(program, std::vector<FailurePoint>(1))[0];
  ASSERT_EQ(right.exit_code, 0) << right.err;
  ASSERT_GT(right.large, 0);
  const std::vector<FailurePoint> points = points_of(right);
  const std::vector<FailingRun> runs = run_with_failures(program, points);
  std::map<std::string, int> ends;
  for (size_t i = 0; i < runs.size(); ++i) {
    ++ends[runs[i].exit_code == 0 ? "done" : "error"];
    const std::string fault = fault_of(runs[i], right, points[i]);
    EXPECT_TRUE(fault.empty()) << fault;
  }
  for (const auto& [end, count] : ends) fmt::print("{}: {}\n", end, count);
  fmt::print("of {} large and {} small allocations\n", right.large, right.small);
}

const std::vector<std::string> kUnshuffled = {"--batch", "4", "--shuffle", "1"};

INSTANTIATE_TEST_SUITE_P(
    Workloads, OutOfMemory,
    testing::Values(
        Case{.name = "read", .workload = "read", .record = test::mlm_record},
        Case{.name = "examples", .workload = "examples", .record = test::tokens_record},
        Case{.name = "global_shuffle", .workload = "global_shuffle", .record = test::tokens_record, .indexed = true},
        Case{.name = "mlm", .workload = "mlm", .record = test::mlm_record},
        Case{.name = "mlm_gz", .workload = "mlm_gz", .record = test::mlm_record, .compression = Compression::kGzip},
        Case{.name = "quest", .workload = "quest", .record = test::quest_record},
        Case{.name = "quest_cached",
             .workload = "quest",
             .record = test::quest_record,
             .more = {"--batch", "4", "--cache"}},
        Case{.name = "bucket", .workload = "bucket", .record = test::tokens_record, .more = {}},
        Case{.name = "pad", .workload = "pad", .record = test::tokens_record, .more = kUnshuffled},
        Case{.name = "images",
             .workload = "images",
             .record = test::images_record,
             .more = {"--batch", "1"},
             .num_records = 10},
        Case{.name = "noop", .workload = "noop"}, Case{.name = "noop_rows", .workload = "noop_rows"},
        Case{.name = "save", .workload = "mlm", .record = test::mlm_record, .saves = true}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace millrace::workloads_test
