#include "millrace/trainer/tensor/softmax.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/tensor/kernels.h"

namespace millrace {

template <typename T>
Tensor<T> softmax(Tape<T>& tape, const Tensor<T>& x, std::span<const uint8_t> mask) {
  const auto count = static_cast<size_t>(x.count());
  if (!mask.empty() &&
      (mask.size() % static_cast<size_t>(std::max<int64_t>(1, x.columns())) != 0 || count % mask.size() != 0)) {
    throw ErrorException(ErrorCode::kWrongShape, fmt::format("the mask of softmax has {} values for {} in rows of {}",
                                                             mask.size(), count, x.columns()));
  }
  const Tensor<T> y = tape.make(x.shape);
  std::copy_n(x.values, x.count(), y.values);
  if (!mask.empty()) {
    for (size_t i = 0; i < count; ++i) {
      if (mask[i % mask.size()] == 0) y.values[i] = std::numeric_limits<T>::lowest();
    }
  }
  if (x.columns() > 0) kernels<T>().softmax(x.rows(), x.columns(), y.values);
  if (!mask.empty()) {
    for (size_t i = 0; i < count; ++i) {
      if (mask[i % mask.size()] == 0) y.values[i] = 0;
    }
  }
  tape.record({x}, y, [=](Tape<T>& t, const T* dy) {
    const GradientSlot<T> slot = t.gradient_of(x);
    T* dx = slot.add ? t.arena().template allocate<T>(x.count()) : slot.values;
    kernels<T>().softmax_backward(y.values, dy, x.rows(), x.columns(), dx);
    if (!slot.add) return;
    kernels<T>().add(dx, x.count(), slot.values);
    t.arena().release(dx, x.count());
  });
  return y;
}

template Tensor<float> softmax(Tape<float>&, const Tensor<float>&, std::span<const uint8_t>);
template Tensor<double> softmax(Tape<double>&, const Tensor<double>&, std::span<const uint8_t>);

}  // namespace millrace
