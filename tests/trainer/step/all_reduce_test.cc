#include "millrace/trainer/step/all_reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

namespace millrace::all_reduce_test {
namespace {

// Values whose sum depends on the order of the additions.
float value(int replica, int64_t i) {
  return (1.0F + static_cast<float>(i % 97) * 1e-3F) * std::pow(10.0F, static_cast<float>((replica * 5 + i) % 7) - 3);
}

float tree_sum(int begin, int end, int active, int64_t i) {
  if (end - begin == 1) return value(begin, i);
  const int middle = begin + (end - begin + 1) / 2;
  if (middle >= active) return tree_sum(begin, middle, active, i);
  return tree_sum(begin, middle, active, i) + tree_sum(middle, end, active, i);
}

ParameterLayout layout_of_two() {
  ParameterLayout layout;
  layout.add("a", {100});
  layout.add("b", {33});
  layout.finish(128);
  return layout;
}

TEST(AllReduce, AddsInTheOrderOfTheTreeWhateverTheOrderOfArrival) {
  const ParameterLayout layout = layout_of_two();
  const auto num_buckets = static_cast<int>(layout.buckets().size());
  ASSERT_GE(num_buckets, 4);
  for (const int replicas : {1, 2, 3, 5, 6, 8, 11}) {
    for (int active = 1; active <= replicas; ++active) {
      AllReduce<float> all_reduce(layout.size(), layout.buckets(), replicas);
      std::vector<int> arrivals(static_cast<size_t>(active * num_buckets));
      std::iota(arrivals.begin(), arrivals.end(), 0);
      uint64_t state = 1;
      for (int round = 0; round < 5; ++round) {
        for (size_t i = arrivals.size(); i > 1; --i) {
          state = state * 6364136223846793005ULL + 1442695040888963407ULL;
          std::swap(arrivals[i - 1], arrivals[(state >> 33) % i]);
        }
        all_reduce.begin(active);
        for (int replica = 0; replica < active; ++replica) {
          const std::span<float> buffer = all_reduce.take_buffer(replica);
          for (int64_t i = 0; i < layout.size(); ++i) buffer[static_cast<size_t>(i)] = value(replica, i);
        }
        int completed = 0;
        for (int arrival : arrivals) {
          completed += all_reduce.arrive(arrival / num_buckets, arrival % num_buckets) ? 1 : 0;
        }
        EXPECT_EQ(completed, num_buckets);
        for (int64_t i = 0; i < layout.size(); ++i) {
          ASSERT_EQ(all_reduce.result()[i], tree_sum(0, replicas, active, i)) << replicas << " " << active << " " << i;
        }
        all_reduce.end();
      }
    }
  }
  // The tree of eight is the documented one, and another order would give another sum somewhere.
  bool differs = false;
  for (int64_t i = 0; i < layout.size(); ++i) {
    const auto v = [i](int replica) { return value(replica, i); };
    EXPECT_EQ(tree_sum(0, 8, 8, i), ((v(0) + v(1)) + (v(2) + v(3))) + ((v(4) + v(5)) + (v(6) + v(7))));
    differs |= tree_sum(0, 8, 8, i) != ((((((v(0) + v(1)) + v(2)) + v(3)) + v(4)) + v(5)) + v(6)) + v(7);
  }
  EXPECT_TRUE(differs);
}

TEST(AllReduce, KeepsFiveBuffersWhenEightReplicasRunOneAfterTheOther) {
  const ParameterLayout layout = layout_of_two();
  AllReduce<float> all_reduce(layout.size(), layout.buckets(), 8);
  all_reduce.begin(8);
  for (int replica = 0; replica < 8; ++replica) {
    all_reduce.take_buffer(replica);
    for (int bucket = 0; bucket < static_cast<int>(layout.buckets().size()); ++bucket)
      all_reduce.arrive(replica, bucket);
    all_reduce.leave(replica);
  }
  EXPECT_EQ(all_reduce.peak_buffers(), 5);
  all_reduce.end();
}

TEST(AllReduce, GivesNobodyTheBufferOfAReplicaThatHasNotLeft) {
  const ParameterLayout layout = layout_of_two();
  AllReduce<float> all_reduce(layout.size(), layout.buckets(), 8);
  all_reduce.begin(8);
  const float* right = nullptr;
  for (int replica = 0; replica < 4; ++replica) {
    const float* buffer = all_reduce.take_buffer(replica).data();
    if (replica == 1) right = buffer;
    for (int bucket = 0; bucket < static_cast<int>(layout.buckets().size()); ++bucket)
      all_reduce.arrive(replica, bucket);
    if (replica != 1) all_reduce.leave(replica);
  }
  // All are added to 0's, but 1 may still write what is in no bucket.
  for (const int replica : {4, 5, 6}) EXPECT_NE(all_reduce.take_buffer(replica).data(), right);
  all_reduce.leave(1);
  EXPECT_EQ(all_reduce.take_buffer(7).data(), right);
  all_reduce.end();
}

TEST(SumOfSquares, IsExactForSmallNumbersAndShowsWhatIsNotFinite) {
  for (const size_t size : {0U, 1U, 15U, 16U, 17U, 100U}) {
    std::vector<float> values(size);
    std::iota(values.begin(), values.end(), 1.0F);
    const auto n = static_cast<double>(size);
    EXPECT_EQ(sum_of_squares(values), n * (n + 1) * (2 * n + 1) / 6);
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      for (size_t i = 0; i < size; ++i) {
        std::vector<float> damaged = values;
        damaged[i] = bad;
        EXPECT_FALSE(std::isfinite(sum_of_squares(damaged)));
      }
    }
  }
  const std::vector<float> largest(100, std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(sum_of_squares(largest)));
}

}  // namespace
}  // namespace millrace::all_reduce_test
