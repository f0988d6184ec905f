// What a pipeline takes once it runs, epoch after epoch: next to no fresh memory from the system, and of the heap a few
// small objects for each block, never memory for what is in it.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <ostream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "benchmarks/workloads.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/benchmarks/workload_shards.h"
#include "tests/support/temporary_folder.h"

namespace millrace::steady_state_test {
namespace {

// So far, in the whole program; without those of oneTBB, and aligned ones, which are parts of shuffles and pools.
std::atomic<int64_t> heap_objects{0};
std::atomic<int64_t> large_heap_objects{0};
constexpr size_t kLarge = 16 << 10;  // not a handle, but contents

// What was taken: so far, or in a round.
struct Taken {
  int64_t objects = 0;
  int64_t large_objects = 0;
  int64_t buffers = 0;
  int64_t faults = 0;

  static Taken so_far(const Pipeline& pipeline) {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return {heap_objects, large_heap_objects, pipeline.stats().fresh_buffers, usage.ru_minflt};
  }
  Taken operator-(const Taken& before) const {
    return {objects - before.objects, large_objects - before.large_objects, buffers - before.buffers,
            faults - before.faults};
  }
};

struct Case {
  const char* name;
  const char* workload;
  std::string (*record)(int) = nullptr;  // of its shards, if it reads some
  // Taken from the heap for each batch at most: twice what it is. They are what describes blocks; buffers are used
  // again.
  int64_t most_heap_objects = 0;
  Compression compression = Compression::kNone;
  bool cache = false;
  int num_records = test::kWorkloadRecords;
  int batch = 32;

  friend void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }
};

class SteadyState : public testing::TestWithParam<Case> {};

TEST_P(SteadyState, TakesNoFreshMemory) {
  const Case& tested = GetParam();
  const test::TemporaryFolder folder;
  BenchOptions options;
  options.workload = tested.workload;
  if (tested.record != nullptr) {
    test::write_workload_shards(folder.path(), tested.record, tested.compression, tested.num_records);
    options.shards = folder.path("*.tfrecord");
  }
  options.batch = tested.batch;
  options.shuffle = 2000;
  options.cycle_length = 3;
  options.cache = tested.cache;
  const int num_batches = 20 * tested.num_records / tested.batch;  // so epochs begin and end among them
  for (const int threads : {1, 4}) {
    const WorkerLimit limit(threads);
    Pipeline pipeline = make_workload(options).dataset.start({.threads = threads});
    const auto take = [&] {
      for (int i = 0; i < num_batches; ++i) ASSERT_TRUE(pipeline.next().has_value());
    };
    take();
    const Taken most = {.objects = tested.most_heap_objects * num_batches,
                        .large_objects = num_batches / 10 + 10,
                        .buffers = std::max(num_batches / 10, 4),
                        .faults = num_batches / 4 + 64};
    // A thread that stands still for a while lets rings fill further than before, and then there are buffers more, with
    // pages of their own; and the system may take pages away. Rounds like that come to an end; what is taken for each
    // batch is there in all of them.
    constexpr int kMostRounds = 10;
    Taken taken;
    int round = 0;
    do {
      const Taken before = Taken::so_far(pipeline);
      take();
      taken = Taken::so_far(pipeline) - before;
      ASSERT_LT(taken.objects, most.objects) << threads << " threads";
      ASSERT_LT(taken.large_objects, most.large_objects) << threads << " threads";
    } while (++round < kMostRounds && (taken.buffers >= most.buffers || taken.faults >= most.faults));
    const auto per_batch = [&](int64_t count) { return static_cast<double>(count) / num_batches; };
    fmt::print(
        "{} threads: {:.1f} objects on the heap, {:.3f} fresh buffers, {:.3f} page faults for each of {} batches, in "
        "round {}\n",
        threads, per_batch(taken.objects), per_batch(taken.buffers), per_batch(taken.faults), num_batches, round);
    EXPECT_LT(taken.buffers, most.buffers) << threads << " threads";
    EXPECT_LT(taken.faults, most.faults) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Workloads, SteadyState,
    testing::Values(Case{"read", "read", test::mlm_record, 20}, Case{"mlm", "mlm", test::mlm_record, 50},
                    Case{"mlm_gz", "mlm_gz", test::mlm_record, 50, Compression::kGzip},
                    Case{"quest", "quest", test::quest_record, 75},
                    Case{"quest_cached", "quest", test::quest_record, 45, Compression::kNone, true},
                    Case{"bucket", "bucket", test::tokens_record, 45},
                    // Its shuffle, after repeat, mixes rows of two epochs, which have blocks of their own.
                    Case{"pad", "pad", test::tokens_record, 280},
                    // Each row of 3.3 MB is a block.
                    Case{"images", "images", test::images_record, 220, Compression::kNone, false, 40, 4},
                    Case{"noop", "noop", nullptr, 6}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace millrace::steady_state_test

// Of the whole program.
void* operator new(size_t bytes) {
  namespace counted = millrace::steady_state_test;
  counted::heap_objects.fetch_add(1, std::memory_order_relaxed);
  if (bytes >= counted::kLarge) counted::large_heap_objects.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(std::max<size_t>(bytes, 1)); memory != nullptr) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
