#include "benchmarks/latency_histogram.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace millrace::latency_histogram_test {
namespace {

TEST(LatencyHistogram, GivesPercentilesWithinOnePartIn32) {
  LatencyHistogram histogram;
  std::vector<int64_t> all;
  uint64_t state = 1;
  for (int i = 0; i < 20'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    all.push_back(static_cast<int64_t>(state >> (34 + i % 20)));
    histogram.add(all.back());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(histogram.count(), 20'000);
  EXPECT_EQ(histogram.max_ns(), all.back());
  for (const double share : {0.001, 0.1, 0.5, 0.9, 0.99, 1.0}) {
    const int64_t exact = all[static_cast<size_t>(share * 20'000) - 1];
    EXPECT_GE(histogram.percentile_ns(share), exact) << share;
    EXPECT_LE(histogram.percentile_ns(share), exact + exact / 32) << share;
  }
}

TEST(LatencyHistogram, IsExactForFewNanosecondsAndEmptyWithoutAny) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.percentile_ns(0.5), 0);
  for (int64_t i = 0; i < 40; ++i) histogram.add(i);
  EXPECT_EQ(histogram.percentile_ns(0.5), 19);
  EXPECT_EQ(histogram.percentile_ns(1), 39);
  histogram.add(INT64_MAX);
  EXPECT_EQ(histogram.percentile_ns(1), INT64_MAX);
}

}  // namespace
}  // namespace millrace::latency_histogram_test
