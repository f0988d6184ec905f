// Convolutions and their gradients against plain loops, in both precisions: floats go through oneDNN where it is there.
#include "millrace/trainer/tensor/convolution.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace millrace::convolution_test {
namespace {

// Values in [-1, 1), other ones for another salt.
template <typename T>
std::vector<T> drawn(int64_t count, uint64_t salt) {
  std::vector<T> values(static_cast<size_t>(count));
  uint64_t state = salt * 1000003 + 12345;
  for (T& value : values) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    value = static_cast<T>(static_cast<double>(state >> 40) / (1 << 23) - 1);
  }
  return values;
}

std::string name_of(const Convolution& sizes) {
  const SamePatches& p = sizes.patches;
  return fmt::format("{} images {}x{}x{}, kernel {}x{} to {}, stride {}{}", sizes.images, p.height, p.width, p.channels,
                     p.kernel_height, p.kernel_width, sizes.out, p.stride, sizes.depthwise ? ", depthwise" : "");
}

// Calls `body(input, tap, output)` for each product that the convolution is made of: plain loops over everything.
template <typename Body>
void each_product(const Convolution& sizes, const Body& body) {
  const SamePatches& p = sizes.patches;
  const auto before = [&](int64_t size, int64_t kernel) {
    const int64_t out = (size + p.stride - 1) / p.stride;
    return std::max<int64_t>(0, (out - 1) * p.stride + kernel - size) / 2;
  };
  const int64_t out_height = (p.height + p.stride - 1) / p.stride;
  const int64_t out_width = (p.width + p.stride - 1) / p.stride;
  for (int64_t image = 0; image < sizes.images; ++image) {
    for (int64_t oy = 0; oy < out_height; ++oy) {
      for (int64_t ox = 0; ox < out_width; ++ox) {
        for (int64_t ky = 0; ky < p.kernel_height; ++ky) {
          for (int64_t kx = 0; kx < p.kernel_width; ++kx) {
            const int64_t y = oy * p.stride + ky - before(p.height, p.kernel_height);
            const int64_t x = ox * p.stride + kx - before(p.width, p.kernel_width);
            if (y < 0 || y >= p.height || x < 0 || x >= p.width) continue;
            for (int64_t in = 0; in < p.channels; ++in) {
              for (int64_t out = 0; out < sizes.out; ++out) {
                if (sizes.depthwise && in != out) continue;
                const int64_t tap = ky * p.kernel_width + kx;
                body(((image * p.height + y) * p.width + x) * p.channels + in,
                     sizes.depthwise ? tap * p.channels + in : (tap * p.channels + in) * sizes.out + out,
                     ((image * out_height + oy) * out_width + ox) * sizes.out + out);
              }
            }
          }
        }
      }
    }
  }
}

template <typename T>
void expect_near(const std::vector<T>& found, const std::vector<double>& expected, const std::string& what) {
  double largest = 1;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  const double tolerance = (sizeof(T) == sizeof(float) ? 2e-6 : 1e-13) * largest * 8;
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance) << what << " value " << i;
}

// The three parts of a convolution, each also added to what is there.
template <typename T>
void check(const Convolution& sizes) {
  Arena arena;
  const auto x = drawn<T>(sizes.input_count(), 1);
  const auto kernel = drawn<T>(sizes.kernel_count(), 2);
  const auto dy = drawn<T>(sizes.output_count(), 3);
  std::vector<double> expected_y(dy.size());
  std::vector<double> expected_dx(x.size());
  std::vector<double> expected_dkernel(kernel.size());
  each_product(sizes, [&](int64_t in, int64_t tap, int64_t out) {
    const auto [i, t, o] = std::tuple(static_cast<size_t>(in), static_cast<size_t>(tap), static_cast<size_t>(out));
    expected_y[o] += static_cast<double>(x[i]) * kernel[t];
    expected_dx[i] += static_cast<double>(dy[o]) * kernel[t];
    expected_dkernel[t] += static_cast<double>(dy[o]) * x[i];
  });
  std::vector<T> y(dy.size(), T{99});
  convolve<T>(sizes, x.data(), kernel.data(), y.data(), arena);
  expect_near(y, expected_y, name_of(sizes) + ": output");
  std::vector<T> dx(x.size(), T{99});
  std::vector<T> dkernel(kernel.size(), T{99});
  for (const bool add : {false, true}) {
    const double before = add ? 1 : 0;
    convolution_input_gradient<T>(sizes, dy.data(), kernel.data(), add, dx.data(), arena);
    convolution_kernel_gradient<T>(sizes, x.data(), dy.data(), add, dkernel.data(), arena);
    const auto times = [&](std::vector<double> values) {
      for (double& value : values) value *= 1 + before;
      return values;
    };
    expect_near(dx, times(expected_dx), name_of(sizes) + ": gradient of the input");
    expect_near(dkernel, times(expected_dkernel), name_of(sizes) + ": gradient of the kernel");
  }
}

std::vector<Convolution> all_sizes() {
  std::vector<Convolution> all;
  const auto add = [&](int64_t images, int64_t height, int64_t width, int64_t in, int64_t kernel_height,
                       int64_t kernel_width, int64_t stride, int64_t out, bool depthwise = false) {
    all.push_back({.patches = {.height = height,
                               .width = width,
                               .channels = in,
                               .kernel_height = kernel_height,
                               .kernel_width = kernel_width,
                               .stride = stride},
                   .images = images,
                   .out = out,
                   .depthwise = depthwise});
  };
  // Channels that fill a register of any processor, and those that do not.
  for (const int64_t in : {1, 3, 16, 21, 32}) {
    for (const int64_t out : {1, 3, 16, 33}) add(2, 6, 7, in, 3, 3, 1, out);
  }
  // Strides beside sizes that they divide and others; kernels of all forms, also larger than the image and smaller than
  // the stride.
  for (const int64_t stride : {1, 2, 3, 4}) {
    for (const int64_t size : {1, 2, 5, 8}) {
      add(1, size, size + 1, 3, 3, 3, stride, 4);
      add(2, size, size + 2, 16, 1, 1, stride, 16);
      add(1, size, size, 4, 2, 5, stride, 3);
      add(2, size, size + 1, 16, 3, 3, stride, 16, true);
      add(1, size, size, 5, 5, 3, stride, 5, true);
    }
  }
  add(1, 40, 70, 40, 3, 3, 1, 8);  // several tiles
  add(3, 1, 1, 160, 3, 3, 1, 32);  // one pixel
  add(0, 5, 5, 3, 3, 3, 1, 4);     // nothing
  add(0, 5, 5, 3, 3, 3, 2, 3, true);
  return all;
}

TEST(Convolution, IsTheSumOfProductsInBothPrecisions) {
  for (const Convolution& sizes : all_sizes()) {
    ASSERT_NO_FATAL_FAILURE(check<double>(sizes));
    ASSERT_NO_FATAL_FAILURE(check<float>(sizes));
  }
}

TEST(Convolution, GivesTheSameBitsOnAnyThread) {
  for (const Convolution& sizes : all_sizes()) {
    const auto x = drawn<float>(sizes.input_count(), 1);
    const auto kernel = drawn<float>(sizes.kernel_count(), 2);
    const auto dy = drawn<float>(sizes.output_count(), 3);
    struct Parts {
      std::vector<float> y, dx, dkernel;
    };
    const auto compute = [&](Parts& parts) {
      Arena arena;
      parts = {std::vector<float>(dy.size()), std::vector<float>(x.size()), std::vector<float>(kernel.size())};
      convolve<float>(sizes, x.data(), kernel.data(), parts.y.data(), arena);
      convolution_input_gradient<float>(sizes, dy.data(), kernel.data(), false, parts.dx.data(), arena);
      convolution_kernel_gradient<float>(sizes, x.data(), dy.data(), false, parts.dkernel.data(), arena);
    };
    std::vector<Parts> all(4);
    compute(all[0]);
    std::vector<std::thread> threads;
    for (size_t i = 1; i < all.size(); ++i) threads.emplace_back([&, i] { compute(all[i]); });
    for (std::thread& thread : threads) thread.join();
    for (const Parts& parts : all) {
      ASSERT_EQ(parts.y, all[0].y) << name_of(sizes);
      ASSERT_EQ(parts.dx, all[0].dx) << name_of(sizes);
      ASSERT_EQ(parts.dkernel, all[0].dkernel) << name_of(sizes);
    }
  }
}

}  // namespace
}  // namespace millrace::convolution_test
