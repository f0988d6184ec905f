#include "trainer/tensor/layer_norm.h"

#include <algorithm>

#include "trainer/tensor/kernels.h"
#include "trainer/tensor/shape_check.h"

namespace millrace {
namespace {

// What the backward pass needs of a normalisation.
template <typename T>
struct Kept {
  T* normalized;
  T* inverse_deviation;
};

template <typename T>
Kept<T> keep(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& gamma, const Tensor<T>& beta) {
  check_shape("gamma of layer_norm", gamma.shape, {x.columns()});
  check_shape("beta of layer_norm", beta.shape, {x.columns()});
  return {.normalized = tape.template keep<T>(x.count()), .inverse_deviation = tape.template keep<T>(x.rows())};
}

// The gradient of a normalisation's input goes to `dx`, those of gamma and beta to the tape.
template <typename T>
void normalization_backward(Tape<T>& tape, const Kept<T>& kept, const Tensor<T>& gamma, const Tensor<T>& beta,
                            const T* dy, int64_t rows, bool add, T* dx) {
  const int64_t columns = gamma.columns();
  // A frozen gamma or beta has no place for its gradient: it goes to one that is thrown away.
  T* spare = tape.arena().template allocate<T>(columns);
  const auto place_of = [&](const Tensor<T>& parameter) {
    if (!tape.wants(parameter)) return spare;
    const GradientSlot<T> slot = tape.gradient_of(parameter);
    if (!slot.add) std::fill_n(slot.values, columns, T{0});
    return slot.values;
  };
  T* dgamma = place_of(gamma);
  T* dbeta = place_of(beta);
  kernels<T>().layer_norm_backward(kept.normalized, kept.inverse_deviation, gamma.values, dy, rows, columns, add, dx,
                                   dgamma, dbeta);
  tape.arena().release(spare, columns);
}

}  // namespace

template <typename T>
Tensor<T> layer_norm(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& gamma, const Tensor<T>& beta, double epsilon) {
  const Kept<T> kept = keep(tape, x, gamma, beta);
  const Tensor<T> y = tape.make(x.shape);
  kernels<T>().layer_norm(x.values, gamma.values, beta.values, x.rows(), x.columns(), static_cast<T>(epsilon),
                          kept.normalized, kept.inverse_deviation, y.values);
  tape.record({x, gamma, beta}, y, [=](Tape<T>& t, const T* dy) {
    if (t.wants(x)) {
      const GradientSlot<T> slot = t.gradient_of(x);
      normalization_backward(t, kept, gamma, beta, dy, x.rows(), slot.add, slot.values);
    } else {
      T* unused = t.arena().template allocate<T>(x.count());
      normalization_backward(t, kept, gamma, beta, dy, x.rows(), false, unused);
      t.arena().release(unused, x.count());
    }
  });
  return y;
}

template <typename T>
Tensor<T> residual_layer_norm(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& residual, int64_t batch_rows,
                              const DropoutMask& mask, const Tensor<T>& gamma, const Tensor<T>& beta, double epsilon) {
  check_shape("residual of residual_layer_norm", residual.shape, x.shape);
  const Kept<T> kept = keep(tape, x, gamma, beta);
  const Tensor<T> y = tape.make(x.shape);
  std::copy_n(residual.values, x.count(), kept.normalized);
  if (mask.drops()) {
    apply_dropout(tape.arena(), mask, x.values, batch_rows, x.count(), true, kept.normalized);
  } else {
    kernels<T>().add(x.values, x.count(), kept.normalized);
  }
  kernels<T>().layer_norm(kept.normalized, gamma.values, beta.values, x.rows(), x.columns(), static_cast<T>(epsilon),
                          kept.normalized, kept.inverse_deviation, y.values);
  tape.record({x, residual, gamma, beta}, y, [=](Tape<T>& t, const T* dy) {
    T* sum = t.arena().template allocate<T>(x.count());
    normalization_backward(t, kept, gamma, beta, dy, x.rows(), false, sum);
    const auto pass_on = [&](const Tensor<T>& input) {
      const GradientSlot<T> slot = t.gradient_of(input);
      if (slot.add) {
        kernels<T>().add(sum, x.count(), slot.values);
      } else {
        std::copy_n(sum, x.count(), slot.values);
      }
    };
    if (t.wants(residual)) pass_on(residual);
    if (t.wants(x) && mask.drops()) {
      const GradientSlot<T> slot = t.gradient_of(x);
      apply_dropout(t.arena(), mask, static_cast<const T*>(sum), batch_rows, x.count(), slot.add, slot.values);
    } else if (t.wants(x)) {
      pass_on(x);
    }
    t.arena().release(sum, x.count());
  });
  return y;
}

template Tensor<float> layer_norm(Tape<float>&, const Tensor<float>&, const Tensor<float>&, const Tensor<float>&,
                                  double);
template Tensor<float> residual_layer_norm(Tape<float>&, const Tensor<float>&, const Tensor<float>&, int64_t,
                                           const DropoutMask&, const Tensor<float>&, const Tensor<float>&, double);
template Tensor<double> layer_norm(Tape<double>&, const Tensor<double>&, const Tensor<double>&, const Tensor<double>&,
                                   double);
template Tensor<double> residual_layer_norm(Tape<double>&, const Tensor<double>&, const Tensor<double>&, int64_t,
                                            const DropoutMask&, const Tensor<double>&, const Tensor<double>&, double);

}  // namespace millrace
