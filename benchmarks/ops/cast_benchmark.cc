// What casting costs a row of 512 numbers, all of which int32 holds. The floor is a `memcpy` for each row that reads
// and writes as many bytes together. `items_per_second` counts rows. Each run first checks what comes out.
#include <cstring>
#include <stdexcept>
#include <vector>

#include <benchmark/benchmark.h>

#include "millrace/ops/features/cast.h"

namespace millrace {
namespace {

constexpr size_t kRows = 128;
constexpr size_t kLength = 512;

template <typename From, typename To>
void cast(benchmark::State& state) {
  BufferPool pool;
  const Shape shape{kRows, kLength};
  const auto schema = std::make_shared<const Schema>(
      std::vector<FeatureSpec>{{.name = "values", .dtype = DTypeOf<From>::value, .shape = shape}});
  Column values = Column::fixed(pool, DTypeOf<From>::value, shape, 1);
  int32_t next = 0;
  for (From& value : values.template mutable_values<From>()) {
    next = (next * 7 + 13) % 25'000;
    value = static_cast<From>(next - 12'500);
  }
  Block batch(schema, {values}, 1);
  batch.rows_per_element = kRows;
  const CastOperator op(schema, "values", DTypeOf<To>::value);
  const Column converted = op.apply(batch, pool).column(0);
  for (size_t i = 0; i < kRows * kLength; ++i) {
    if (converted.template values<To>()[i] != static_cast<To>(values.template values<From>()[i])) {
      throw std::logic_error("a wrong value");
    }
  }
  for (auto _ : state) benchmark::DoNotOptimize(op.apply(batch, pool));
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kRows));
}

template <typename From, typename To>
void cast_floor(benchmark::State& state) {
  constexpr size_t kRowBytes = kLength * (sizeof(From) + sizeof(To)) / 2;
  const std::vector<char> from(kRows * kRowBytes, 1);
  std::vector<char> to(from.size());
  for (auto _ : state) {
    for (size_t row = 0; row < kRows; ++row) {
      std::memcpy(to.data() + row * kRowBytes, from.data() + row * kRowBytes, kRowBytes);
      benchmark::ClobberMemory();
    }
  }
  if (to != from) throw std::logic_error("a wrong copy");
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kRows));
}

BENCHMARK(cast<int32_t, int64_t>)->Name("cast/int32_int64");
BENCHMARK(cast_floor<int32_t, int64_t>)->Name("cast_floor/int32_int64");
BENCHMARK(cast<int32_t, float>)->Name("cast/int32_float32");
BENCHMARK(cast_floor<int32_t, float>)->Name("cast_floor/int32_float32");
BENCHMARK(cast<int64_t, int32_t>)->Name("cast/int64_int32");
BENCHMARK(cast_floor<int64_t, int32_t>)->Name("cast_floor/int64_int32");
BENCHMARK(cast<int64_t, float>)->Name("cast/int64_float32");
BENCHMARK(cast_floor<int64_t, float>)->Name("cast_floor/int64_float32");
BENCHMARK(cast<float, int32_t>)->Name("cast/float32_int32");
BENCHMARK(cast_floor<float, int32_t>)->Name("cast_floor/float32_int32");
BENCHMARK(cast<float, int64_t>)->Name("cast/float32_int64");
BENCHMARK(cast_floor<float, int64_t>)->Name("cast_floor/float32_int64");

}  // namespace
}  // namespace millrace
