// Adding the gradients of eight replicas: the tree that the trainer walks, against a ring, on buffers of the same size
// and on the same threads, in turns. Both sums are checked. `ratio` is the median of the ring's time over the tree's of
// the same turn, so that a machine whose speed changes does not decide it.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "millrace/trainer/step/all_reduce.h"

namespace {

using millrace::AllReduce;
using millrace::FlatBuffer;
using millrace::ParameterLayout;

constexpr int kReplicas = 8;
constexpr int64_t kParameters = 12;
constexpr int64_t kParameterSize = 640 * 1024;  // 7.9 million floats in all, as the default model of train_mlm has

ParameterLayout layout_of_gradients() {
  ParameterLayout layout;
  for (int64_t i = 0; i < kParameters; ++i) layout.add(fmt::format("parameter{}", i), {kParameterSize});
  layout.finish();
  return layout;
}

void fill(std::span<float> gradients, int replica) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    gradients[i] = static_cast<float>((i * 7 + static_cast<size_t>(replica) * 13) % 101) * 0.01F;
  }
}

void check(const float* sum, int64_t size) {
  for (int64_t i = 0; i < size; i += 997) {
    double expected = 0;
    for (int replica = 0; replica < kReplicas; ++replica) {
      expected += static_cast<double>((i * 7 + replica * 13) % 101) * 0.01;
    }
    if (std::abs(sum[i] - expected) < 1e-3) continue;
    std::fprintf(stderr, "all_reduce_benchmark: value %ld is %f, not %f\n", static_cast<long>(i), sum[i], expected);
    std::abort();
  }
}

// `threads` threads run `body(thread)`, started outside the time that is taken.
template <typename Body>
double seconds_of(int threads, const Body& body) {
  std::barrier start(threads + 1);
  std::barrier end(threads + 1);
  std::vector<std::jthread> all;
  all.reserve(static_cast<size_t>(threads));
  for (int thread = 0; thread < threads; ++thread) {
    all.emplace_back([&, thread] {
      start.arrive_and_wait();
      body(thread);
      end.arrive_and_wait();
    });
  }
  start.arrive_and_wait();
  const auto begin = std::chrono::steady_clock::now();
  end.arrive_and_wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// How gradients come to the tree. In turns of replicas, each thread brings those of whole replicas, its buckets in
// order, without the backward pass that lies between them in a step: the thread with the last of a group adds, the
// others have nothing to do. When all are there, as in a ring, each thread takes buckets.
enum class Arrival { kInTurn, kAllThere };

class Tree {
 public:
  double seconds(int threads, Arrival arrival) {
    all_reduce_.begin(kReplicas);
    for (int replica = 0; replica < kReplicas; ++replica) fill(all_reduce_.take_buffer(replica), replica);
    std::atomic<int> next{0};
    const auto buckets = static_cast<int>(layout_.buckets().size());
    const double time = seconds_of(threads, [&](int) {
      if (arrival == Arrival::kAllThere) {
        for (int bucket = next++; bucket < buckets; bucket = next++) {
          for (int replica = 0; replica < kReplicas; ++replica) all_reduce_.arrive(replica, bucket);
        }
        return;
      }
      for (int replica = next++; replica < kReplicas; replica = next++) {
        for (int bucket = 0; bucket < buckets; ++bucket) all_reduce_.arrive(replica, bucket);
        all_reduce_.leave(replica);
      }
    });
    check(all_reduce_.result(), layout_.size());
    all_reduce_.end();
    return time;
  }
  int64_t size() const { return layout_.size(); }

 private:
  ParameterLayout layout_ = layout_of_gradients();
  AllReduce<float> all_reduce_{layout_.size(), layout_.buckets(), kReplicas};
};

// Reduce-scatter, then all-gather (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", 2009): in each of 7 rounds every replica adds a chunk to its neighbour's, in each of 7 more it copies
// one. Each replica ends with the sum, as it must where replicas have weights of their own.
class Ring {
 public:
  explicit Ring(int64_t size) : size_(size) {
    for (int replica = 0; replica < kReplicas; ++replica) buffers_.emplace_back(size);
  }
  double seconds(int threads) {
    for (int replica = 0; replica < kReplicas; ++replica) fill(buffers_[static_cast<size_t>(replica)].span(), replica);
    const int64_t chunk = size_ / kReplicas;
    std::barrier round(threads);
    const double time = seconds_of(threads, [&](int thread) {
      for (int step = 0; step < 2 * (kReplicas - 1); ++step) {
        for (int replica = thread; replica < kReplicas; replica += threads) {
          const bool adds = step < kReplicas - 1;
          const int which = (replica - step + 2 * kReplicas) % kReplicas;
          const float* from = buffers_[static_cast<size_t>(replica)].data() + which * chunk;
          float* to = buffers_[static_cast<size_t>((replica + 1) % kReplicas)].data() + which * chunk;
          if (adds) {
            for (int64_t i = 0; i < chunk; ++i) to[i] += from[i];
          } else {
            std::copy(from, from + chunk, to);
          }
        }
        round.arrive_and_wait();
      }
    });
    for (const FlatBuffer& buffer : buffers_) check(buffer.data(), size_);
    return time;
  }

 private:
  int64_t size_;
  std::vector<FlatBuffer> buffers_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void tree_and_ring(benchmark::State& state, Arrival arrival) {
  const auto threads = static_cast<int>(state.range(0));
  Tree tree;
  Ring ring(tree.size());
  std::vector<double> trees;
  std::vector<double> rings;
  std::vector<double> ratios;
  for (auto unused : state) {
    trees.push_back(tree.seconds(threads, arrival));
    rings.push_back(ring.seconds(threads));
    ratios.push_back(rings.back() / trees.back());
    state.SetIterationTime(trees.back());
  }
  state.counters["tree_ms"] = 1e3 * median(trees);
  state.counters["ring_ms"] = 1e3 * median(rings);
  state.counters["ratio"] = median(ratios);
  state.counters["MiB"] = static_cast<double>(tree.size() * 4) / (1 << 20);
}

void on_1_2_4_threads(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(1)->Arg(2)->Arg(4)->Iterations(11)->UseManualTime()->Unit(::benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(tree_and_ring, replicas_in_turn, Arrival::kInTurn)->Apply(on_1_2_4_threads);
BENCHMARK_CAPTURE(tree_and_ring, all_there, Arrival::kAllThere)->Apply(on_1_2_4_threads);

}  // namespace
