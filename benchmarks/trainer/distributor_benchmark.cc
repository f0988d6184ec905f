// A batch of mlm, 128 rows of 512 ids, masks and labels, split for 1 to 8 replicas. `distribute`: each replica's rows
// are read, as a model does; `split`: the views alone. CPU time; `items_per_second` counts rows. Each run checks that
// the views give all values.
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "millrace/trainer/step/distributor.h"

namespace {

using namespace millrace;

constexpr int64_t kRows = 128;
constexpr int64_t kLength = 512;

class ReadyBatch {
 public:
  ReadyBatch() {
    std::vector<FeatureView> features;
    for (const std::string name : {"input_ids", "attention_mask", "labels"}) {
      std::vector<int32_t>& values = values_.emplace_back(kRows * kLength);
      std::iota(values.begin(), values.end(), 0);
      features.emplace_back(name, std::span<const int32_t>(values), std::vector<int64_t>{kRows, kLength});
    }
    view_ = BatchView(std::move(features));
  }
  const BatchView& view() const { return view_; }

 private:
  std::vector<std::vector<int32_t>> values_;
  BatchView view_{{}};
};

// One for all: where it lies in memory must not make one number of replicas faster than another.
const BatchView& ready_batch() {
  static const ReadyBatch batch;
  return batch.view();
}

uint32_t sum_of(const BatchView& view) {
  uint32_t sum = 0;
  for (const FeatureView& feature : view.features()) {
    for (const int32_t value : feature.values<int32_t>()) sum += static_cast<uint32_t>(value);
  }
  return sum;
}

uint32_t sum_of(const std::vector<BatchView>& views) {
  uint32_t sum = 0;
  for (const BatchView& view : views) sum += sum_of(view);
  return sum;
}

void distribute(benchmark::State& state) {
  const BatchView& batch = ready_batch();
  const Distributor distributor(static_cast<int>(state.range(0)));
  const uint32_t all = sum_of(batch);
  for (auto _ : state) {
    if (sum_of(distributor.split(batch)) != all) throw std::logic_error("other values");
  }
  state.SetItemsProcessed(state.iterations() * kRows);
}

void split(benchmark::State& state) {
  const BatchView& batch = ready_batch();
  const Distributor distributor(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    std::vector<BatchView> views = distributor.split(batch);
    benchmark::DoNotOptimize(views.data());
  }
  if (sum_of(distributor.split(batch)) != sum_of(batch)) throw std::logic_error("other values");
  state.SetItemsProcessed(state.iterations() * kRows);
}

BENCHMARK(distribute)->Arg(1)->Arg(2)->Arg(4)->Arg(8)->MeasureProcessCPUTime();
BENCHMARK(split)->Arg(1)->Arg(2)->Arg(4)->Arg(8)->MeasureProcessCPUTime();

}  // namespace
