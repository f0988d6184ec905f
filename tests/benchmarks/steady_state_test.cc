// Memory that a pipeline takes from the system once it runs, epoch after epoch: next to none.
#include <ostream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "benchmarks/workloads.h"
#include "pipeline/worker_limit.h"
#include "tests/benchmarks/workload_shards.h"
#include "tests/support/temporary_folder.h"

namespace millrace::steady_state_test {
namespace {

int64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

struct Case {
  const char* workload;
  std::string (*record)(int);
  bool cache = false;

  std::string name() const { return fmt::format("{}{}", workload, cache ? "_cached" : ""); }
  friend void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name(); }
};

class SteadyState : public testing::TestWithParam<Case> {};

TEST_P(SteadyState, TakesNoFreshMemory) {
  const test::TemporaryFolder folder;
  test::write_workload_shards(folder.path(), GetParam().record);
  BenchOptions options;
  options.workload = GetParam().workload;
  options.shards = folder.path("*.tfrecord");
  options.batch = 32;
  options.shuffle = 2000;
  options.cycle_length = 3;
  options.cache = GetParam().cache;
  constexpr int kBatches = 20 * test::kWorkloadRecords / 32;  // so epochs begin and end among them
  for (const int threads : {1, 4}) {
    const WorkerLimit limit(threads);
    Pipeline pipeline = make_workload(options).dataset.start({.threads = threads});
    const auto take = [&] {
      for (int i = 0; i < kBatches; ++i) ASSERT_TRUE(pipeline.next().has_value());
    };
    take();
    const int64_t faults = page_faults();
    const int64_t buffers = pipeline.stats().fresh_buffers;
    take();
    // How many blocks there are at a time differs from moment to moment, so now and then there is a buffer more.
    EXPECT_LT(pipeline.stats().fresh_buffers - buffers, kBatches / 10) << threads << " threads";
    EXPECT_LT(page_faults() - faults, kBatches) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Workloads, SteadyState,
                         testing::Values(Case{"read", test::mlm_record}, Case{"mlm", test::mlm_record},
                                         Case{"quest", test::quest_record}, Case{"quest", test::quest_record, true},
                                         Case{"bucket", test::tokens_record}, Case{"pad", test::tokens_record}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace millrace::steady_state_test
