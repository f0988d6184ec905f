#include "millrace/trainer/tensor/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/shape_check.h"

namespace millrace {

template <typename T>
Tensor<T> inference_batch_norm(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& gamma, const Tensor<T>& beta,
                               const Tensor<T>& mean, const Tensor<T>& variance, double epsilon) {
  const int64_t channels = x.columns();
  check_shape("gamma of inference_batch_norm", gamma.shape, {channels});
  check_shape("beta of inference_batch_norm", beta.shape, {channels});
  check_shape("mean of inference_batch_norm", mean.shape, {channels});
  check_shape("variance of inference_batch_norm", variance.shape, {channels});
  T* inverse = tape.template keep<T>(channels);
  T* factor = tape.template keep<T>(channels);
  T* shift = tape.template keep<T>(channels);
  for (int64_t c = 0; c < channels; ++c) {
    inverse[c] = 1 / std::sqrt(variance.values[c] + static_cast<T>(epsilon));
    factor[c] = gamma.values[c] * inverse[c];
    shift[c] = beta.values[c] - mean.values[c] * factor[c];
  }
  const Tensor<T> y = tape.make(x.shape);
  const int64_t rows = x.rows();
  kernels<T>().fill_rows(shift, rows, channels, y.values);
  for (int64_t row = 0; row < rows; ++row) {
    kernels<T>().multiply(x.values + row * channels, factor, channels, true, y.values + row * channels);
  }
  tape.record({x, gamma, beta}, y, [=](Tape<T>& t, const T* dy) {
    if (t.wants(x)) {
      const GradientSlot<T> slot = t.gradient_of(x);
      for (int64_t row = 0; row < rows; ++row) {
        kernels<T>().multiply(dy + row * channels, factor, channels, slot.add, slot.values + row * channels);
      }
    }
    if (t.wants(beta)) {
      const GradientSlot<T> slot = t.gradient_of(beta);
      kernels<T>().column_sums(dy, rows, channels, slot.add, slot.values);
    }
    if (t.wants(gamma)) {
      const GradientSlot<T> slot = t.gradient_of(gamma);
      if (!slot.add) std::fill_n(slot.values, channels, T{0});
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t c = 0; c < channels; ++c) {
          slot.values[c] += dy[row * channels + c] * (x.values[row * channels + c] - mean.values[c]) * inverse[c];
        }
      }
    }
  });
  return y;
}

template Tensor<float> inference_batch_norm(Tape<float>&, const Tensor<float>&, const Tensor<float>&,
                                            const Tensor<float>&, const Tensor<float>&, const Tensor<float>&, double);
template Tensor<double> inference_batch_norm(Tape<double>&, const Tensor<double>&, const Tensor<double>&,
                                             const Tensor<double>&, const Tensor<double>&, const Tensor<double>&,
                                             double);

}  // namespace millrace
