#include "millrace/trainer/tensor/max_pool2d.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

// Calls `function(window, pixel, place)` for each pixel of each window, row by row: the first channel of the window in
// y, that of the pixel in x, and the place of the pixel in its window.
template <typename Function>
void each_pixel(const TensorShape& x, const TensorShape& y, int64_t size, const Function& function) {
  const int64_t images = x.sizes()[0];
  const int64_t height = x.sizes()[1];
  const int64_t width = x.sizes()[2];
  const int64_t channels = x.columns();
  const int64_t rows = y.sizes()[1];
  const int64_t columns = y.sizes()[2];
  for (int64_t window = 0; window < images * rows * columns; ++window) {
    const int64_t row = window / columns;  // over all images
    const int64_t top = row / rows * height + row % rows * size;
    const int64_t left = window % columns * size;
    for (int64_t place = 0; place < size * size; ++place) {
      const int64_t pixel = (top + place / size) * width + left + place % size;
      function(window * channels, pixel * channels, place);
    }
  }
}

}  // namespace

template <typename T>
Tensor<T> max_pool2d(Tape<T>& tape, const Tensor<T>& x, int64_t size) {
  if (size < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("max_pool2d with a size of {}; at least 1", size));
  }
  const std::span<const int64_t> sizes = x.shape.sizes();
  if (sizes.size() != 4 || sizes[1] < size || sizes[2] < size) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("max_pool2d of [{}] with windows of {} x {} pixels; images [images, height, "
                                     "width, channels] of that size at least are needed",
                                     fmt::join(sizes, ", "), size, size));
  }
  const int64_t channels = x.columns();
  const Tensor<T> y = tape.make({sizes[0], sizes[1] / size, sizes[2] / size, channels});
  // Of the largest values, in their windows.
  auto* places = tape.recording() ? tape.template keep<int32_t>(y.count()) : nullptr;
  each_pixel(x.shape, y.shape, size, [&](int64_t window, int64_t pixel, int64_t place) {
    const T* value = x.values + pixel;
    T* largest = y.values + window;
    if (place == 0) {
      std::copy_n(value, channels, largest);
      if (places != nullptr) std::fill_n(places + window, channels, 0);
      return;
    }
    for (int64_t channel = 0; channel < channels; ++channel) {
      // Of two numbers the larger one, and whatever is none stays.
      if (!(value[channel] > largest[channel] || value[channel] != value[channel])) continue;
      largest[channel] = value[channel];
      if (places != nullptr) places[window + channel] = static_cast<int32_t>(place);
    }
  });
  tape.record({x}, y, [=](Tape<T>& t, const T* dy) {
    const GradientSlot<T> slot = t.gradient_of(x);
    if (!slot.add) std::fill_n(slot.values, x.count(), T{0});
    each_pixel(x.shape, y.shape, size, [&](int64_t window, int64_t pixel, int64_t place) {
      for (int64_t channel = 0; channel < channels; ++channel) {
        if (places[window + channel] == place) slot.values[pixel + channel] += dy[window + channel];
      }
    });
  });
  return y;
}

template Tensor<float> max_pool2d(Tape<float>&, const Tensor<float>&, int64_t);
template Tensor<double> max_pool2d(Tape<double>&, const Tensor<double>&, int64_t);

}  // namespace millrace
