#include "millrace/trainer/tensor/bce_with_logits.h"

#include <algorithm>
#include <cmath>

#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/shape_check.h"

namespace millrace {

template <typename T>
Tensor<T> bce_with_logits(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& target) {
  check_shape("target of bce_with_logits", target.shape, x.shape);
  const Tensor<T> y = tape.make(x.shape);
  for (int64_t i = 0; i < x.count(); ++i) {
    const T value = x.values[i];
    y.values[i] = std::max(value, T{0}) - value * target.values[i] + std::log1p(std::exp(-std::abs(value)));
  }
  tape.record({x, target}, y, [=](Tape<T>& t, const T* dy) {
    const int64_t count = x.count();
    if (t.wants(x)) {
      const GradientSlot<T> slot = t.gradient_of(x);
      T* probability = t.arena().template allocate<T>(count);
      kernels<T>().sigmoid(x.values, count, probability);
      for (int64_t i = 0; i < count; ++i) {
        const T gradient = (probability[i] - target.values[i]) * dy[i];
        slot.values[i] = gradient + (slot.add ? slot.values[i] : 0);
      }
      t.arena().release(probability, count);
    }
    if (t.wants(target)) {
      const GradientSlot<T> slot = t.gradient_of(target);
      for (int64_t i = 0; i < count; ++i) {
        slot.values[i] = (slot.add ? slot.values[i] : 0) - x.values[i] * dy[i];
      }
    }
  });
  return y;
}

template Tensor<float> bce_with_logits(Tape<float>&, const Tensor<float>&, const Tensor<float>&);
template Tensor<double> bce_with_logits(Tape<double>&, const Tensor<double>&, const Tensor<double>&);

}  // namespace millrace
