#include "millrace/trainer/tensor/rms_norm.h"

#include <algorithm>

#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/shape_check.h"

namespace millrace {

template <typename T>
Tensor<T> rms_norm(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& gamma, double epsilon) {
  check_shape("gamma of rms_norm", gamma.shape, {x.columns()});
  T* inverse_root = tape.template keep<T>(x.rows());
  const Tensor<T> y = tape.make(x.shape);
  kernels<T>().rms_norm(x.values, gamma.values, x.rows(), x.columns(), static_cast<T>(epsilon), inverse_root, y.values);
  tape.record({x, gamma}, y, [=](Tape<T>& t, const T* dy) {
    // What is not wanted goes to a place that is thrown away.
    Arena& arena = t.arena();
    const bool wants_x = t.wants(x);
    const bool wants_gamma = t.wants(gamma);
    const GradientSlot<T> dx = wants_x ? t.gradient_of(x) : GradientSlot<T>{arena.allocate<T>(x.count()), false};
    const GradientSlot<T> dgamma =
        wants_gamma ? t.gradient_of(gamma) : GradientSlot<T>{arena.allocate<T>(gamma.count()), false};
    if (!dgamma.add) std::fill_n(dgamma.values, gamma.count(), T{0});
    kernels<T>().rms_norm_backward(x.values, inverse_root, gamma.values, dy, x.rows(), x.columns(), dx.add, dx.values,
                                   dgamma.values);
    if (!wants_gamma) arena.release(dgamma.values, gamma.count());
    if (!wants_x) arena.release(dx.values, x.count());
  });
  return y;
}

template Tensor<float> rms_norm(Tape<float>&, const Tensor<float>&, const Tensor<float>&, double);
template Tensor<double> rms_norm(Tape<double>&, const Tensor<double>&, const Tensor<double>&, double);

}  // namespace millrace
