#include "trainer/tensor/linear.h"

#include "trainer/tensor/gemm.h"
#include "trainer/tensor/kernels.h"
#include "trainer/tensor/shape_check.h"

namespace millrace {

template <typename T>
Tensor<T> linear(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias) {
  const int64_t rows = x.rows();
  const int64_t in = x.columns();
  const int64_t out = weight.rows();
  check_shape("weight of linear", weight.shape, {out, in});
  check_shape("bias of linear", bias.shape, {out});
  const Tensor<T> y = tape.make({rows, out});
  kernels<T>().fill_rows(bias.values, rows, out, y.values);
  gemm<T>(Transposed::kNo, Transposed::kYes, rows, out, in, 1, x.values, in, weight.values, in, 1, y.values, out);
  tape.record({x, weight, bias}, y, [=](Tape<T>& t, const T* dy) {
    if (bias.needs_gradient()) {
      const GradientSlot<T> slot = t.gradient_of(bias);
      kernels<T>().column_sums(dy, rows, out, slot.add, slot.values);
    }
    if (weight.needs_gradient()) {
      const GradientSlot<T> slot = t.gradient_of(weight);
      gemm<T>(Transposed::kYes, Transposed::kNo, out, in, rows, 1, dy, out, x.values, in, slot.beta(), slot.values, in);
    }
    if (x.needs_gradient()) {
      const GradientSlot<T> slot = t.gradient_of(x);
      gemm<T>(Transposed::kNo, Transposed::kNo, rows, in, out, 1, dy, out, weight.values, in, slot.beta(), slot.values,
              in);
    }
  });
  return y;
}

template Tensor<float> linear(Tape<float>&, const Tensor<float>&, const Tensor<float>&, const Tensor<float>&);
template Tensor<double> linear(Tape<double>&, const Tensor<double>&, const Tensor<double>&, const Tensor<double>&);

}  // namespace millrace
