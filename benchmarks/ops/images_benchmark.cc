// What maps on images cost one of 375 x 500 pixels and 3 channels, which becomes one of 224 x 224; of normalize one of
// that size. The floor is a `memcpy` of as many bytes as are read and written, together. `items_per_second` counts
// images. Each run first checks a value of what comes out.
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include <benchmark/benchmark.h>

#include "millrace/ops/images/crop.h"
#include "millrace/ops/images/normalize.h"
#include "millrace/ops/images/resize.h"

namespace millrace {
namespace {

constexpr size_t kImages = 8;

Block images_of(BufferPool& pool, DType dtype, const Shape& shape) {
  const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{{"image", dtype, shape}});
  Column column = Column::fixed(pool, dtype, shape, kImages);
  uint32_t next = 1;
  const auto fill = [&]<typename T>(std::span<T> values) {
    for (T& value : values) {
      next = next * 1664525 + 1013904223;
      value = static_cast<T>(next >> 24);
    }
  };
  if (dtype == DType::kUint8) fill(column.mutable_values<uint8_t>());
  if (dtype == DType::kFloat32) fill(column.mutable_values<float>());
  return {schema, {column}, kImages};
}

void run(benchmark::State& state, const MapOperator& op, const Block& block, BufferPool& pool) {
  for (auto _ : state) benchmark::DoNotOptimize(op.apply(block, pool));
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kImages));
}

void resize(benchmark::State& state, DType dtype, ResizeMethod method, bool antialias) {
  BufferPool pool;
  const Block block = images_of(pool, dtype, {375, 500, 3});
  const ResizeOperator op(block.schema(), {.height = 224, .width = 224, .method = method, .antialias = antialias});
  if (dtype == DType::kUint8 && method == ResizeMethod::kBilinear && !antialias) {
    // Pixel (100, 50): row (100.5 * 375 / 224) - 0.5, column (50.5 * 500 / 224) - 0.5.
    const auto values = block.column(0).values<uint8_t>(3);
    const double y = 100.5 * 375 / 224 - 0.5;
    const double x = 50.5 * 500 / 224 - 0.5;
    const auto at = [&](double row, double column) {
      return static_cast<double>(values[(static_cast<size_t>(row) * 500 + static_cast<size_t>(column)) * 3 + 2]);
    };
    const double v = y - std::floor(y);
    const double u = x - std::floor(x);
    const double expected =
        (1 - v) * ((1 - u) * at(y, x) + u * at(y, x + 1)) + v * ((1 - u) * at(y + 1, x) + u * at(y + 1, x + 1));
    const float found = op.apply(block, pool).column(0).values<float>(3)[(100 * 224 + 50) * 3 + 2];
    if (std::abs(static_cast<double>(found) - expected) > 1e-2) throw std::logic_error("a wrong value");
  }
  run(state, op, block, pool);
}

void random_resized_crop(benchmark::State& state) {
  BufferPool pool;
  const Block block = images_of(pool, DType::kUint8, {375, 500, 3});
  const CropOperator op(block.schema(), {.features = {"image"}, .window = {.kind = CropKind::kRandomResized}});
  const Block cropped = op.apply(block, pool);
  if (cropped.column(0).num_elements() != kImages || !cropped.errors().empty()) throw std::logic_error("no windows");
  run(state, op, block, pool);
}

void normalize(benchmark::State& state, DType dtype, bool channels_first) {
  BufferPool pool;
  const Block block = images_of(pool, dtype, {224, 224, 3});
  const NormalizeOperator op(block.schema(), {.mean = {123.675, 116.28, 103.53},
                                              .standard_deviation = {58.395, 57.12, 57.375},
                                              .channels_first = channels_first});
  const float first = dtype == DType::kUint8 ? static_cast<float>(block.column(0).values<uint8_t>(2)[0])
                                             : block.column(0).values<float>(2)[0];
  const float expected = (first - 123.675F) / 58.395F;
  if (op.apply(block, pool).column(0).values<float>(2)[0] != expected) throw std::logic_error("a wrong value");
  run(state, op, block, pool);
}

// Of images of uint8 [375,500,3] to float32 [224,224,3].
void resize_floor(benchmark::State& state) {
  constexpr size_t kBytes = (size_t{375} * 500 * 3 + size_t{224} * 224 * 3 * sizeof(float)) / 2;
  const std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), kBytes);
    benchmark::ClobberMemory();
  }
  if (to != from) throw std::logic_error("a wrong copy");
  state.SetItemsProcessed(state.iterations());
}

constexpr DType kUint8 = DType::kUint8;
constexpr DType kFloat32 = DType::kFloat32;
BENCHMARK_CAPTURE(resize, nearest, kUint8, ResizeMethod::kNearest, false);
BENCHMARK_CAPTURE(resize, bilinear, kUint8, ResizeMethod::kBilinear, false);
BENCHMARK_CAPTURE(resize, bilinear_float32, kFloat32, ResizeMethod::kBilinear, false);
BENCHMARK_CAPTURE(resize, bilinear_antialias, kUint8, ResizeMethod::kBilinear, true);
BENCHMARK_CAPTURE(resize, bicubic, kUint8, ResizeMethod::kBicubic, false);
BENCHMARK_CAPTURE(resize, bicubic_antialias, kUint8, ResizeMethod::kBicubic, true);
BENCHMARK_CAPTURE(resize, area, kUint8, ResizeMethod::kArea, false);
BENCHMARK(resize_floor);
BENCHMARK(random_resized_crop)->Name("crop/random_resized");
BENCHMARK_CAPTURE(normalize, uint8, kUint8, false);
BENCHMARK_CAPTURE(normalize, float32, kFloat32, false);
BENCHMARK_CAPTURE(normalize, uint8_channels_first, kUint8, true);

}  // namespace
}  // namespace millrace
