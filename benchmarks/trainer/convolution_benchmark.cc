// A convolution and its gradients on one thread, as the trainer does them, by oneDNN where it is there, and by products
// of patches, in turns; what both make is compared. Two images, of sizes that the examples have: the generator's of
// super_resolution on crops of 128 pixels (and the student's, depthwise), its discriminator's, with a stride of 2, and
// of the last layers of a VGG19 that sees 224 pixels. `ratio` is the median of the patches' time over the other of the
// same turn, so that a machine whose speed changes does not decide it. Products with zeros around an image count.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "millrace/trainer/tensor/convolution.h"
#include "millrace/trainer/tensor/convolution_patches.h"

namespace millrace {
namespace {

struct Kind {
  Convolution sizes = {};
  bool transposed = false;  // gives what the gradient of the input is of `sizes`
};

Kind plain(int64_t side, int64_t in, int64_t out, int64_t stride = 1) {
  return {{.patches =
               {.height = side, .width = side, .channels = in, .kernel_height = 3, .kernel_width = 3, .stride = stride},
           .images = 2,
           .out = out}};
}

Kind depthwise(int64_t side, int64_t channels) {
  Kind kind = plain(side, channels, channels);
  kind.sizes.depthwise = true;
  return kind;
}

// To twice the side.
Kind transposed(int64_t side, int64_t channels) {
  Kind kind = plain(2 * side, channels, channels, 2);
  kind.transposed = true;
  return kind;
}

enum class Part { kOutput, kInputGradient, kKernelGradient };

// The memory of all that there is, of an arena that also lends to what runs.
class Operands {
 public:
  explicit Operands(const Convolution& sizes)
      : sizes_(sizes),
        x_(drawn(sizes.input_count())),
        kernel_(drawn(sizes.kernel_count())),
        y_(drawn(sizes.output_count())) {}

  // What it makes is `made`, afterwards.
  void run(Part part, bool by_patches) {
    switch (part) {
      case Part::kOutput:
        return (by_patches ? convolve_by_patches<float> : convolve<float>)(sizes_, x_, kernel_, y_, arena_);
      case Part::kInputGradient:
        return (by_patches ? input_gradient_by_patches<float> : convolution_input_gradient<float>)(sizes_, y_, kernel_,
                                                                                                   false, x_, arena_);
      case Part::kKernelGradient:
        return (by_patches ? kernel_gradient_by_patches<float>
                           : convolution_kernel_gradient<float>)(sizes_, x_, y_, false, kernel_, arena_);
    }
  }
  std::vector<float> made(Part part) const {
    if (part == Part::kOutput) return {y_, y_ + sizes_.output_count()};
    if (part == Part::kInputGradient) return {x_, x_ + sizes_.input_count()};
    return {kernel_, kernel_ + sizes_.kernel_count()};
  }

 private:
  float* drawn(int64_t count) {
    float* const values = arena_.allocate<float>(count);
    for (int64_t i = 0; i < count; ++i) {
      next_ = next_ * 1664525 + 1013904223;
      values[i] = static_cast<float>(next_ >> 8) / (1 << 23) - 1;
    }
    return values;
  }

  const Convolution sizes_;
  Arena arena_;
  uint32_t next_ = 1;
  float* x_;
  float* kernel_;
  float* y_;
};

void check(const std::vector<float>& one, const std::vector<float>& other) {
  float largest = 0;
  for (const float value : one) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < one.size(); ++i) {
    if (!(std::abs(one[i] - other[i]) <= 1e-4F * largest)) {
      throw std::logic_error("oneDNN and patches give other values");
    }
  }
}

double seconds_of(Operands& operands, Part part, bool by_patches) {
  const auto begin = std::chrono::steady_clock::now();
  operands.run(part, by_patches);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void convolution(benchmark::State& state, const Kind& kind) {
  constexpr std::array kNames{"output", "gradient of the input", "gradient of the kernel"};
  const auto asked = static_cast<Part>(state.range(0));
  state.SetLabel(kNames[static_cast<size_t>(asked)]);
  Part part = asked;
  if (kind.transposed && asked == Part::kOutput) part = Part::kInputGradient;
  if (kind.transposed && asked == Part::kInputGradient) part = Part::kOutput;
  Operands operands(kind.sizes);
  operands.run(part, false);  // which compiles it
  const std::vector<float> made = operands.made(part);
  operands.run(part, true);
  check(made, operands.made(part));
  std::vector<double> trainers;
  std::vector<double> patches;
  std::vector<double> ratios;
  for (auto unused : state) {
    trainers.push_back(seconds_of(operands, part, false));
    patches.push_back(seconds_of(operands, part, true));
    ratios.push_back(patches.back() / trainers.back());
    state.SetIterationTime(trainers.back());
  }
  const int64_t of_each = kind.sizes.patches.size() / (kind.sizes.depthwise ? kind.sizes.out : 1);
  const double giga = 2e-9 * static_cast<double>(kind.sizes.output_count() * of_each);
  state.counters["GF/s"] = giga / median(trainers);
  state.counters["patches_GF/s"] = giga / median(patches);
  state.counters["ratio"] = median(ratios);
}

void each_part(benchmark::internal::Benchmark* benchmark) {
  benchmark->DenseRange(0, 2)->Iterations(31)->UseManualTime()->Unit(::benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(convolution, plain_32_to_32, plain(32, 32, 32))->Apply(each_part);
BENCHMARK_CAPTURE(convolution, plain_160_to_32, plain(32, 160, 32))->Apply(each_part);
BENCHMARK_CAPTURE(convolution, plain_of_128_pixels, plain(128, 32, 32))->Apply(each_part);
BENCHMARK_CAPTURE(convolution, plain_512_to_512, plain(14, 512, 512))->Apply(each_part);
BENCHMARK_CAPTURE(convolution, stride_2_of_64, plain(128, 64, 64, 2))->Apply(each_part);
BENCHMARK_CAPTURE(convolution, stride_2_of_512, plain(16, 512, 512, 2))->Apply(each_part);
BENCHMARK_CAPTURE(convolution, depthwise_32, depthwise(32, 32))->Apply(each_part);
BENCHMARK_CAPTURE(convolution, depthwise_160, depthwise(32, 160))->Apply(each_part);
BENCHMARK_CAPTURE(convolution, transposed_to_64_pixels, transposed(32, 32))->Apply(each_part);
BENCHMARK_CAPTURE(convolution, transposed_to_128_pixels, transposed(64, 32))->Apply(each_part);

}  // namespace
}  // namespace millrace
