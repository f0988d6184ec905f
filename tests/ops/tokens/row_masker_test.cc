#include "millrace/ops/tokens/row_masker.h"

#include <vector>

#include <gtest/gtest.h>

namespace millrace::row_masker_test {
namespace {

TEST(RowMasker, RowsOfOneThatDidNotFinishAreLeftAlone) {
  const MaskRule all_random{.random_below = chance(1), .chosen_below = chance(1), .vocab_size = 1000};
  const CounterRng rng(1, 2);
  const std::vector<int32_t> original(20, -1);
  std::vector<int32_t> first(20, -1);
  std::vector<int32_t> second(20, -1);
  std::vector<int32_t> labels(20);
  BufferPool pool;
  RowMasker<int32_t>::Memory memory{pool};
  RowMasker<int32_t>(all_random, rng, memory)
      .mask({.number = 0, .original = original, .attention = nullptr, .ids = first.data(), .labels = labels.data()});
  RowMasker<int32_t> next(all_random, rng, memory);
  next.mask({.number = 1, .original = original, .attention = nullptr, .ids = second.data(), .labels = labels.data()});
  next.finish();
  EXPECT_EQ(first, original);
  for (size_t p = 0; p < second.size(); ++p) {
    EXPECT_EQ(second[p], random_id<int32_t>(all_random, rng.words(1, kRandomIdDraws + p)[0]));
  }
}

}  // namespace
}  // namespace millrace::row_masker_test
