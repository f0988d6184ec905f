#include "millrace/trainer/tensor/add.h"

#include <algorithm>

#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/shape_check.h"

namespace millrace {
namespace {

template <typename T>
void pass_on(Tape<T>& tape, const Tensor<T>& input, const T* dy) {
  if (tape.wants(input)) {
    const GradientSlot<T> slot = tape.gradient_of(input);
    kernels<T>().scale(dy, 1, input.count(), slot.add, slot.values);
  }
}

}  // namespace

template <typename T>
Tensor<T> add(Tape<T>& tape, const Tensor<T>& a, const Tensor<T>& b) {
  check_shape("second term of add", b.shape, a.shape);
  const Tensor<T> y = tape.make(a.shape);
  std::copy_n(a.values, a.count(), y.values);
  kernels<T>().add(b.values, b.count(), y.values);
  tape.record({a, b}, y, [=](Tape<T>& t, const T* dy) {
    pass_on(t, a, dy);
    pass_on(t, b, dy);
  });
  return y;
}

template <typename T>
Tensor<T> add_bias(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& bias) {
  check_shape("bias of add_bias", bias.shape, {x.columns()});
  const Tensor<T> y = tape.make(x.shape);
  kernels<T>().fill_rows(bias.values, x.rows(), x.columns(), y.values);
  kernels<T>().add(x.values, x.count(), y.values);
  tape.record({x, bias}, y, [=](Tape<T>& t, const T* dy) {
    pass_on(t, x, dy);
    if (!t.wants(bias)) return;
    const GradientSlot<T> slot = t.gradient_of(bias);
    kernels<T>().column_sums(dy, x.rows(), x.columns(), slot.add, slot.values);
  });
  return y;
}

template Tensor<float> add(Tape<float>&, const Tensor<float>&, const Tensor<float>&);
template Tensor<double> add(Tape<double>&, const Tensor<double>&, const Tensor<double>&);
template Tensor<float> add_bias(Tape<float>&, const Tensor<float>&, const Tensor<float>&);
template Tensor<double> add_bias(Tape<double>&, const Tensor<double>&, const Tensor<double>&);

}  // namespace millrace
