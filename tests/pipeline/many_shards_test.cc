// What takes time, memory or places in a state for each shard, and must not for each pair of them.
#include <climits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "millrace/pipeline/dataset.h"
#include "tests/support/injecting_storage.h"
#include "tests/support/memory_storage.h"

namespace millrace::many_shards_test {
namespace {

// The elements of all batches, or of `most`.
std::vector<std::string> records(Pipeline& pipeline, int most = INT_MAX) {
  std::vector<std::string> found;
  for (int i = 0; i < most; ++i) {
    const auto batch = pipeline.next();
    if (!batch) break;
    for (const std::string_view record : batch->values<std::string_view>("record")) found.emplace_back(record);
  }
  return found;
}

TEST(ManyShards, AreShuffledInterleavedAndResumed) {
  constexpr int kShards = 20'000;
  test::MemoryStorage memory;
  std::vector<std::string> names;
  for (int i = 0; i < kShards; ++i) {
    names.push_back(fmt::format("s-{:06}", i));
    memory.add(names.back(), fmt::format("{}\n", i));
  }
  const auto storage = std::make_shared<test::InjectingStorage>(memory, test::InjectionOptions{});
  const Dataset dataset =
      Dataset::text_lines(Shards::files(names), {.cycle_length = 16, .shuffle_shards = true, .seed = 3}).batch(100);

  Pipeline straight = dataset.start({.threads = 2, .storage = storage});
  const std::vector<std::string> expected = records(straight);
  ASSERT_EQ(expected.size(), size_t{kShards});
  EXPECT_LE(storage->counts().opens, uint64_t{2 * kShards});

  Pipeline first = dataset.start({.threads = 2, .storage = storage});
  std::vector<std::string> found = records(first, 120);
  const std::string state = first.save().serialize();
  EXPECT_LT(state.size(), 10'000U);  // of the open shards, not of all
  const uint64_t opens_before = storage->counts().opens;
  Pipeline second = dataset.start({.threads = 2, .storage = storage, .state = PipelineState::parse(state)});
  const std::vector<std::string> rest = records(second);
  found.insert(found.end(), rest.begin(), rest.end());
  EXPECT_EQ(found, expected);
  // All are looked at once, whether they are the same; read are those that are left, and not those that have been.
  EXPECT_LT(storage->counts().opens - opens_before, uint64_t{kShards} + 8'000 + 1'000);
}

}  // namespace
}  // namespace millrace::many_shards_test
