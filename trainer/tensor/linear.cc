#include "millrace/trainer/tensor/linear.h"

#include "millrace/trainer/tensor/gemm.h"
#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/shape_check.h"

namespace millrace {

namespace {

// `bias` without values: none.
template <typename T>
Tensor<T> product(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias) {
  const int64_t rows = x.rows();
  const int64_t in = x.columns();
  const int64_t out = weight.rows();
  check_shape("weight of linear", weight.shape, {out, in});
  const Tensor<T> y = tape.make({rows, out});
  if (bias.values != nullptr) {
    check_shape("bias of linear", bias.shape, {out});
    kernels<T>().fill_rows(bias.values, rows, out, y.values);
  }
  gemm<T>(Transposed::kNo, Transposed::kYes, rows, out, in, 1, x.values, in, weight.values, in,
          bias.values == nullptr ? 0 : 1, y.values, out);
  tape.record({x, weight, bias}, y, [=](Tape<T>& t, const T* dy) {
    if (t.wants(bias)) {
      const GradientSlot<T> slot = t.gradient_of(bias);
      kernels<T>().column_sums(dy, rows, out, slot.add, slot.values);
    }
    if (t.wants(weight)) {
      const GradientSlot<T> slot = t.gradient_of(weight);
      gemm<T>(Transposed::kYes, Transposed::kNo, out, in, rows, 1, dy, out, x.values, in, slot.beta(), slot.values, in);
    }
    if (t.wants(x)) {
      const GradientSlot<T> slot = t.gradient_of(x);
      gemm<T>(Transposed::kNo, Transposed::kNo, rows, in, out, 1, dy, out, weight.values, in, slot.beta(), slot.values,
              in);
    }
  });
  return y;
}

}  // namespace

template <typename T>
Tensor<T> linear(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias) {
  return product(tape, x, weight, bias);
}

template <typename T>
Tensor<T> linear(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& weight) {
  return product(tape, x, weight, {});
}

template Tensor<float> linear(Tape<float>&, const Tensor<float>&, const Tensor<float>&);
template Tensor<double> linear(Tape<double>&, const Tensor<double>&, const Tensor<double>&);
template Tensor<float> linear(Tape<float>&, const Tensor<float>&, const Tensor<float>&, const Tensor<float>&);
template Tensor<double> linear(Tape<double>&, const Tensor<double>&, const Tensor<double>&, const Tensor<double>&);

}  // namespace millrace
