// What pipelines hold is given back, wherever they are when they are dropped.

#include "tests/contract/resources.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/contract/graph.h"
#include "tests/contract/outcome.h"
#include "tests/contract/save_points.h"
#include "tests/support/sanitized.h"
#include "tests/support/soak.h"

namespace millrace::test::resources_test {
namespace {

constexpr uint64_t kPipelines = kSanitized ? 150 : 1000;
constexpr uint64_t kSoakPipelines = 10000;

struct Opened {
  int64_t dropped_before_the_end = 0;
  int64_t dropped_after_an_error = 0;
  int64_t resumed = 0;
};

// Opens the pipeline of a random graph, takes some elements, and drops it; now and then goes on where it was. What is
// random but the graph is drawn from `seed`.
void open_and_drop(uint64_t graph, uint64_t seed, Opened& opened) {
  const CounterRng rng(seed, operator_id("open_and_drop"));
  const CounterRng::Words words = rng.words(0);
  const std::optional<TwinDataset> twin = build(draw_graph(graph), {.pending = words[0] % 2 == 0, .seed = seed});
  const RunOptions options{.threads = std::array{1, 2, 8}[words[1] % 3],
                           .storage = words[2] % 3 == 0 ? slow_storage(seed) : nullptr};
  // Often none: it is dropped in its first read.
  const size_t count = words[3] % 3 == 0 ? 0 : words[3] % 20;
  Outcome outcome;
  std::string state;
  {
    Pipeline pipeline = twin->dataset().start(options.start_options());
    take_elements(pipeline, outcome, count);
    if (words[3] % 4 == 0) state = save(pipeline);
  }
  opened.dropped_before_the_end += outcome.stopped ? 1 : 0;
  opened.dropped_after_an_error += outcome.error_code.empty() ? 0 : 1;
  if (state.empty()) return;
  Pipeline pipeline = resume(twin->dataset(), options.start_options(), state);
  take_elements(pipeline, outcome, outcome.elements.size() + 3);
  ++opened.resumed;
}

TEST(Resources, ReturnToTheStartBehindPipelinesDroppedAtRandomPoints) {
  const uint64_t count = soaking() ? kSoakPipelines : kPipelines;
  const uint64_t seed = seed_of_this_run() * 1000003;
  constexpr int kWorkers = 8;
  const WorkerLimit workers(kWorkers);
  Opened opened;
  // Until oneTBB has its threads and every allocator its caches. The graphs that follow are the same ones: another that
  // needs more than all before would fill caches further.
  const auto graph = [seed](uint64_t i) { return seed + i % kPipelines; };
  for (uint64_t i = 0; i < kPipelines; ++i) open_and_drop(graph(i), seed + i, opened);
  opened = {};
  Resources before = Resources::now();
  for (uint64_t i = 0; i < count; ++i) open_and_drop(graph(i), seed + kPipelines + i, opened);
  const Resources after = Resources::now();
  fmt::print("{} pipelines: {} dropped before their end, {} after an error, {} resumed; heap {} -> {} bytes\n", count,
             opened.dropped_before_the_end, opened.dropped_after_an_error, opened.resumed, before.heap_bytes,
             after.heap_bytes);
  EXPECT_GT(2 * opened.dropped_before_the_end, static_cast<int64_t>(count));
  EXPECT_GT(opened.dropped_after_an_error, 0);
  EXPECT_GT(opened.resumed, static_cast<int64_t>(count) / 20);
  // Caches of allocators and of the threads of oneTBB, which are full after some 30,000 pipelines; a pipeline that left
  // its buffers would leave many times as much, and one of 10,000 that leaves 105 bytes is seen.
  // The threads of oneTBB come and go as it likes, but are never more than these.
  before.threads += kWorkers;
  EXPECT_EQ(left_over(before, /*heap_slack=*/1 << 20), "");
}

}  // namespace
}  // namespace millrace::test::resources_test
