#include "trainer/tensor/feed_forward.h"

#include "trainer/tensor/gemm.h"
#include "trainer/tensor/kernels.h"
#include "trainer/tensor/shape_check.h"

namespace millrace {
namespace {

// The activation, and its slope in place of x.
template <typename T>
void activate(Activation activation, T* x, int64_t n, T* y) {
  switch (activation) {
    case Activation::kRelu: return kernels<T>().relu_with_slope(x, n, y, x);
    case Activation::kGelu: return kernels<T>().gelu_with_slope(x, n, y, x);
    case Activation::kGeluTanh: return kernels<T>().gelu_tanh_with_slope(x, n, y, x);
  }
}

// The tensors of one call, as the backward pass needs them. Optional ones have no values where there are none.
template <typename T>
struct Call {
  Tensor<T> x, in, in_bias, gate, out, out_bias;
  FeedForwardOptions options;
  T* slopes = nullptr;     // of the activation
  T* activated = nullptr;  // its values, where there is a gate
  T* gates = nullptr;
  T* inner = nullptr;  // what went into the second product

  int64_t rows() const { return x.rows(); }
  int64_t columns() const { return x.columns(); }
  int64_t inner_size() const { return in.rows(); }
  int64_t count() const { return rows() * inner_size(); }
};

template <typename T>
void check(const Call<T>& call) {
  const int64_t columns = call.columns();
  const int64_t inner = call.inner_size();
  check_shape("in of feed_forward", call.in.shape, {inner, columns});
  check_shape("out of feed_forward", call.out.shape, {columns, inner});
  if (call.in_bias.values != nullptr) check_shape("in_bias of feed_forward", call.in_bias.shape, {inner});
  if (call.gate.values != nullptr) check_shape("gate of feed_forward", call.gate.shape, {inner, columns});
  if (call.out_bias.values != nullptr) check_shape("out_bias of feed_forward", call.out_bias.shape, {columns});
}

// `y = x weight^T + bias`.
template <typename T>
void multiply(const T* x, int64_t rows, const Tensor<T>& weight, const Tensor<T>& bias, T* y) {
  const int64_t in = weight.columns();
  const int64_t out = weight.rows();
  if (bias.values != nullptr) kernels<T>().fill_rows(bias.values, rows, out, y);
  gemm<T>(Transposed::kNo, Transposed::kYes, rows, out, in, 1, x, in, weight.values, in, bias.values == nullptr ? 0 : 1,
          y, out);
}

// The gradients of weight and bias, and that of x where it is wanted.
template <typename T>
void multiply_backward(Tape<T>& tape, const T* x, int64_t rows, const Tensor<T>& weight, const Tensor<T>& bias,
                       const T* dy, GradientSlot<T> dx) {
  const int64_t in = weight.columns();
  const int64_t out = weight.rows();
  if (tape.wants(bias)) {
    const GradientSlot<T> slot = tape.gradient_of(bias);
    kernels<T>().column_sums(dy, rows, out, slot.add, slot.values);
  }
  if (tape.wants(weight)) {
    const GradientSlot<T> slot = tape.gradient_of(weight);
    gemm<T>(Transposed::kYes, Transposed::kNo, out, in, rows, 1, dy, out, x, in, slot.beta(), slot.values, in);
  }
  if (dx.values != nullptr) {
    gemm<T>(Transposed::kNo, Transposed::kNo, rows, in, out, 1, dy, out, weight.values, in, dx.beta(), dx.values, in);
  }
}

template <typename T>
void drop(Arena& arena, const Call<T>& call, T* values) {
  if (!call.options.dropout.drops()) return;
  apply_dropout(arena, call.options.dropout, static_cast<const T*>(values), call.options.batch_rows, call.count(),
                false, values);
}

template <typename T>
void backward(Tape<T>& tape, const Call<T>& call, const T* dy) {
  const int64_t count = call.count();
  T* gradient = tape.arena().template allocate<T>(count);
  multiply_backward(tape, static_cast<const T*>(call.inner), call.rows(), call.out, call.out_bias, dy,
                    GradientSlot<T>{gradient, false});
  drop(tape.arena(), call, gradient);
  const T* x = call.x.values;
  const auto dx = [&] { return tape.wants(call.x) ? tape.gradient_of(call.x) : GradientSlot<T>{}; };
  if (call.gates != nullptr) {
    T* gate_gradient = tape.arena().template allocate<T>(count);
    kernels<T>().multiply(gradient, call.activated, count, false, gate_gradient);
    multiply_backward(tape, x, call.rows(), call.gate, Tensor<T>{}, static_cast<const T*>(gate_gradient), dx());
    tape.arena().release(gate_gradient, count);
    kernels<T>().multiply(gradient, call.gates, count, false, gradient);
  }
  kernels<T>().multiply(gradient, call.slopes, count, false, gradient);
  multiply_backward(tape, x, call.rows(), call.in, call.in_bias, static_cast<const T*>(gradient), dx());
  tape.arena().release(gradient, count);
}

}  // namespace

template <typename T>
Tensor<T> feed_forward(Tape<T>& tape, const Tensor<T>& x, const FeedForwardWeights<T>& weights,
                       const FeedForwardOptions& options) {
  Call<T> call{.x = x,
               .in = weights.in,
               .in_bias = weights.in_bias.value_or(Tensor<T>{}),
               .gate = weights.gate.value_or(Tensor<T>{}),
               .out = weights.out,
               .out_bias = weights.out_bias.value_or(Tensor<T>{}),
               .options = options};
  check(call);
  const int64_t count = call.count();
  call.slopes = tape.template keep<T>(count);
  call.inner = tape.template keep<T>(count);
  multiply(static_cast<const T*>(x.values), call.rows(), call.in, call.in_bias, call.slopes);
  if (weights.gate) {
    call.activated = tape.template keep<T>(count);
    call.gates = tape.template keep<T>(count);
    activate(options.activation, call.slopes, count, call.activated);
    multiply(static_cast<const T*>(x.values), call.rows(), call.gate, Tensor<T>{}, call.gates);
    kernels<T>().multiply(call.activated, call.gates, count, false, call.inner);
  } else {
    activate(options.activation, call.slopes, count, call.inner);
  }
  drop(tape.arena(), call, call.inner);
  const Tensor<T> y = tape.make({call.rows(), call.columns()});
  multiply(static_cast<const T*>(call.inner), call.rows(), call.out, call.out_bias, y.values);
  tape.record({call.x, call.in, call.in_bias, call.gate, call.out, call.out_bias}, y,
              [call](Tape<T>& t, const T* dy) { backward(t, call, dy); });
  return y;
}

template Tensor<float> feed_forward(Tape<float>&, const Tensor<float>&, const FeedForwardWeights<float>&,
                                    const FeedForwardOptions&);
template Tensor<double> feed_forward(Tape<double>&, const Tensor<double>&, const FeedForwardWeights<double>&,
                                     const FeedForwardOptions&);

}  // namespace millrace
