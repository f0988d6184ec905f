#include "millrace/trainer/tensor/resize_bicubic.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

constexpr int64_t kTaps = 4;

struct Sizes {
  int64_t images = 0, height = 0, width = 0, channels = 0;
  int64_t factor = 1;

  int64_t row() const { return width * channels; }
};

// Keys' kernel, a = -1/2.
double cubic(double x) {
  x = std::abs(x);
  if (x >= 2) return 0;
  return x >= 1 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : (1.5 * x - 2.5) * x * x + 1;
}

/// Calls `body(tap, weight)` for the places along an axis of `size` that make place `to` of `factor size` places.
template <typename Body>
void for_each_tap(int64_t to, int64_t size, int64_t factor, const Body& body) {
  const double place = (static_cast<double>(to) + 0.5) / static_cast<double>(factor) - 0.5;
  const auto first = static_cast<int64_t>(std::floor(place)) - 1;
  for (int64_t tap = first; tap < first + kTaps; ++tap) {
    body(std::clamp<int64_t>(tap, 0, size - 1), cubic(place - static_cast<double>(tap)));
  }
}

/// Calls `body(input, output, weight)` for the rows of all images: rows `[width, channels]`, of the output not yet
/// wider.
template <typename Body>
void for_each_row(const Sizes& sizes, const Body& body) {
  for (int64_t image = 0; image < sizes.images; ++image) {
    for (int64_t y = 0; y < sizes.height * sizes.factor; ++y) {
      for_each_tap(y, sizes.height, sizes.factor, [&](int64_t tap, double weight) {
        body(image * sizes.height + tap, image * sizes.height * sizes.factor + y, weight);
      });
    }
  }
}

/// Calls `body(input, output, weight)` for the places of a row's values, before it is made wider and after.
template <typename Body>
void for_each_place(const Sizes& sizes, const Body& body) {
  for (int64_t x = 0; x < sizes.width * sizes.factor; ++x) {
    for_each_tap(x, sizes.width, sizes.factor, [&](int64_t tap, double weight) {
      for (int64_t c = 0; c < sizes.channels; ++c) body(tap * sizes.channels + c, x * sizes.channels + c, weight);
    });
  }
}

}  // namespace

template <typename T>
Tensor<T> resize_bicubic(Tape<T>& tape, const Tensor<T>& x, int64_t factor) {
  const std::span<const int64_t> in = x.shape.sizes();
  if (in.size() != 4) {
    throw ErrorException(ErrorCode::kWrongShape, fmt::format("resize_bicubic of [{}]", fmt::join(in, ", ")));
  }
  if (factor < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("resize_bicubic by a factor of {}", factor));
  }
  const Sizes sizes{.images = in[0], .height = in[1], .width = in[2], .channels = in[3], .factor = factor};
  const Tensor<T> y = tape.make({in[0], in[1] * factor, in[2] * factor, in[3]});
  const int64_t rows = in[0] * in[1] * factor;
  const int64_t count = rows * sizes.row();
  T* higher = tape.arena().template allocate<T>(count);  // as high as y, as wide as x
  std::fill_n(higher, count, T{0});
  for_each_row(sizes, [&](int64_t from, int64_t to, double weight) {
    for (int64_t i = 0; i < sizes.row(); ++i) {
      higher[to * sizes.row() + i] += static_cast<T>(weight) * x.values[from * sizes.row() + i];
    }
  });
  std::fill_n(y.values, y.count(), T{0});
  for (int64_t row = 0; row < rows; ++row) {
    for_each_place(sizes, [&](int64_t from, int64_t to, double weight) {
      y.values[row * sizes.row() * factor + to] += static_cast<T>(weight) * higher[row * sizes.row() + from];
    });
  }
  tape.arena().release(higher, count);
  tape.record({x}, y, [=](Tape<T>& t, const T* dy) {
    const GradientSlot<T> slot = t.gradient_of(x);
    if (!slot.add) std::fill_n(slot.values, x.count(), T{0});
    T* of_higher = t.arena().template allocate<T>(count);
    std::fill_n(of_higher, count, T{0});
    for (int64_t row = 0; row < rows; ++row) {
      for_each_place(sizes, [&](int64_t from, int64_t to, double weight) {
        of_higher[row * sizes.row() + from] += static_cast<T>(weight) * dy[row * sizes.row() * factor + to];
      });
    }
    for_each_row(sizes, [&](int64_t from, int64_t to, double weight) {
      for (int64_t i = 0; i < sizes.row(); ++i) {
        slot.values[from * sizes.row() + i] += static_cast<T>(weight) * of_higher[to * sizes.row() + i];
      }
    });
    t.arena().release(of_higher, count);
  });
  return y;
}

template Tensor<float> resize_bicubic(Tape<float>&, const Tensor<float>&, int64_t);
template Tensor<double> resize_bicubic(Tape<double>&, const Tensor<double>&, int64_t);

}  // namespace millrace
