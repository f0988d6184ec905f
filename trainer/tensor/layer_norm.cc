#include "millrace/trainer/tensor/layer_norm.h"

#include <algorithm>

#include "millrace/trainer/tensor/kept_values.h"
#include "millrace/trainer/tensor/kernels.h"
#include "millrace/trainer/tensor/shape_check.h"

namespace millrace {
namespace {

// What the backward pass needs of a normalisation.
template <typename T>
struct Kept {
  KeptValues<T> normalized;
  T* inverse_deviation;
};

template <typename T>
Kept<T> keep(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& gamma, const Tensor<T>& beta) {
  check_shape("gamma of layer_norm", gamma.shape, {x.columns()});
  check_shape("beta of layer_norm", beta.shape, {x.columns()});
  return {.normalized = KeptValues<T>(tape, x.count()), .inverse_deviation = tape.template keep<T>(x.rows())};
}

// Where the gradients of gamma and beta are added to. That of a frozen one goes to a place that is thrown away.
template <typename T>
class GradientPlaces {
 public:
  GradientPlaces(Tape<T>& tape, const Tensor<T>& gamma, const Tensor<T>& beta)
      : arena_(tape.arena()), columns_(gamma.columns()), spare_(arena_.allocate<T>(columns_)) {
    gamma_ = place_of(tape, gamma);
    beta_ = place_of(tape, beta);
  }
  GradientPlaces(const GradientPlaces&) = delete;
  GradientPlaces& operator=(const GradientPlaces&) = delete;
  ~GradientPlaces() { arena_.release(spare_, columns_); }
  T* gamma() const { return gamma_; }
  T* beta() const { return beta_; }

 private:
  T* place_of(Tape<T>& tape, const Tensor<T>& parameter) {
    if (!tape.wants(parameter)) return spare_;
    const GradientSlot<T> slot = tape.gradient_of(parameter);
    if (!slot.add) std::fill_n(slot.values, columns_, T{0});
    return slot.values;
  }

  Arena& arena_;
  int64_t columns_;
  T* spare_;
  T* gamma_ = nullptr;
  T* beta_ = nullptr;
};

// `drawn` has `parts` parts, each of `length` rows of x, which stay in the cache from the sum to the norm.
template <typename T>
Tensor<T> normalize_parts(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& residual, int64_t parts, int64_t length,
                          const DrawnDropout<T>& drawn, const Tensor<T>& gamma, const Tensor<T>& beta, double epsilon) {
  const Kept<T> kept = keep(tape, x, gamma, beta);
  const Tensor<T> y = tape.make(x.shape);
  const int64_t columns = x.columns();
  const int64_t size = length * columns;
  KeptWindow<T> normalized(tape.arena(), kept.normalized, size);
  for (int64_t part = 0; part < parts; ++part) {
    T* sum = normalized.place(part * size);
    drawn.apply(part, x.values + part * size, residual.values + part * size, sum);
    kernels<T>().layer_norm(sum, gamma.values, beta.values, length, columns, static_cast<T>(epsilon), sum,
                            kept.inverse_deviation + part * length, y.values + part * size);
    normalized.keep();
  }
  tape.record({x, residual, gamma, beta}, y, [=](Tape<T>& t, const T* dy) {
    Arena& arena = t.arena();
    T* sum = arena.allocate<T>(size);
    const GradientPlaces<T> places(t, gamma, beta);
    // Two slots of one tensor: what is written to the first is added to in the second.
    const GradientSlot<T> dresidual = t.wants(residual) ? t.gradient_of(residual) : GradientSlot<T>{};
    const GradientSlot<T> dx = t.wants(x) ? t.gradient_of(x) : GradientSlot<T>{};
    KeptWindow<T> window(arena, kept.normalized, size);
    for (int64_t part = 0; part < parts; ++part) {
      kernels<T>().layer_norm_backward(window.values(part * size), kept.inverse_deviation + part * length, gamma.values,
                                       dy + part * size, length, columns, false, sum, places.gamma(), places.beta());
      if (dresidual.values != nullptr) {
        kernels<T>().scale(sum, 1, size, dresidual.add, dresidual.values + part * size);
      }
      if (dx.values == nullptr) continue;
      T* dx_part = dx.values + part * size;
      drawn.apply(part, sum, dx.add ? dx_part : nullptr, dx_part);
    }
    arena.release(sum, size);
  });
  return y;
}

}  // namespace

template <typename T>
Tensor<T> layer_norm(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& gamma, const Tensor<T>& beta, double epsilon) {
  const Kept<T> kept = keep(tape, x, gamma, beta);
  const Tensor<T> y = tape.make(x.shape);
  {
    KeptWindow<T> window(tape.arena(), kept.normalized, x.count());
    kernels<T>().layer_norm(x.values, gamma.values, beta.values, x.rows(), x.columns(), static_cast<T>(epsilon),
                            window.place(0), kept.inverse_deviation, y.values);
    window.keep();
  }
  tape.record({x, gamma, beta}, y, [=](Tape<T>& t, const T* dy) {
    const bool wanted = t.wants(x);
    KeptWindow<T> window(t.arena(), kept.normalized, x.count());
    const GradientPlaces<T> places(t, gamma, beta);
    const GradientSlot<T> dx =
        wanted ? t.gradient_of(x) : GradientSlot<T>{t.arena().template allocate<T>(x.count()), false};
    kernels<T>().layer_norm_backward(window.values(0), kept.inverse_deviation, gamma.values, dy, x.rows(), x.columns(),
                                     dx.add, dx.values, places.gamma(), places.beta());
    if (!wanted) t.arena().release(dx.values, x.count());
  });
  return y;
}

template <typename T>
Tensor<T> residual_layer_norm(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& residual, int64_t batch_rows,
                              const DropoutMask& mask, const Tensor<T>& gamma, const Tensor<T>& beta, double epsilon) {
  check_shape("residual of residual_layer_norm", residual.shape, x.shape);
  check_batch_rows("residual_layer_norm", x.shape, batch_rows);
  const int64_t length = batch_rows == 0 ? 0 : x.rows() / batch_rows;
  const DrawnDropout<T> drawn(tape, mask, batch_rows, 1, length * x.columns());
  return normalize_parts(tape, x, residual, batch_rows, length, drawn, gamma, beta, epsilon);
}

template <typename T>
Tensor<T> residual_layer_norm(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& residual, int64_t length,
                              std::span<const int32_t> tokens, const DropoutMask& mask, const Tensor<T>& gamma,
                              const Tensor<T>& beta, double epsilon) {
  check_shape("x of residual_layer_norm", x.shape, {std::ssize(tokens), x.columns()});
  check_shape("residual of residual_layer_norm", residual.shape, x.shape);
  const DrawnDropout<T> drawn(tape, mask, length, x.columns(), tokens);
  return normalize_parts(tape, x, residual, std::ssize(tokens), 1, drawn, gamma, beta, epsilon);
}

template Tensor<float> layer_norm(Tape<float>&, const Tensor<float>&, const Tensor<float>&, const Tensor<float>&,
                                  double);
template Tensor<float> residual_layer_norm(Tape<float>&, const Tensor<float>&, const Tensor<float>&, int64_t,
                                           const DropoutMask&, const Tensor<float>&, const Tensor<float>&, double);
template Tensor<double> layer_norm(Tape<double>&, const Tensor<double>&, const Tensor<double>&, const Tensor<double>&,
                                   double);
template Tensor<double> residual_layer_norm(Tape<double>&, const Tensor<double>&, const Tensor<double>&, int64_t,
                                            const DropoutMask&, const Tensor<double>&, const Tensor<double>&, double);
template Tensor<float> residual_layer_norm(Tape<float>&, const Tensor<float>&, const Tensor<float>&, int64_t,
                                           std::span<const int32_t>, const DropoutMask&, const Tensor<float>&,
                                           const Tensor<float>&, double);
template Tensor<double> residual_layer_norm(Tape<double>&, const Tensor<double>&, const Tensor<double>&, int64_t,
                                            std::span<const int32_t>, const DropoutMask&, const Tensor<double>&,
                                            const Tensor<double>&, double);

}  // namespace millrace
